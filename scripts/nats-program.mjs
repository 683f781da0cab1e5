// Prints the path of a nats-server of Debian unstable, which it fetches once, into node_modules/.cache. Nothing is installed.
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { debianProgram } from './debian-program.mjs'

const cache = fileURLToPath(new URL('../node_modules/.cache/leasehold-nats', import.meta.url))
console.log(
  debianProgram({
    release: 'sid',
    packageName: 'nats-server',
    program: 'nats-server',
    place: 'usr/sbin',
    cache: path.resolve(cache),
  }),
)
