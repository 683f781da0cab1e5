#!/usr/bin/env node
import { version } from '../index.ts'

if (process.argv[2] === '--version') console.log(version)
else console.log('Usage: leasehold --version')
