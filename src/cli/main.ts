#!/usr/bin/env node
import { replaceStandardError } from './output/standard-error.ts'

// Before anything else is loaded: from version 24 on, Node looks at process.stderr as soon as somebody imports node:util.
replaceStandardError()
void import('./program.ts').then(({ runProgram }) => runProgram())
