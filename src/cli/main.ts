#!/usr/bin/env node
import { replaceStandardError } from './output/standard-error.ts'

// Before any other import: since version 24, importing node:util opens process.stderr.
replaceStandardError()
void import('./program.ts').then(({ runProgram }) => runProgram())
