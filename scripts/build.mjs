// Builds the package to dist, or with --dev everything (tests, benches, examples too) to .build.
// npm runs this after `npm ci` (the "prepare" script), so that a clone is ready to use.
import { spawnSync } from 'node:child_process'
import { chmodSync, existsSync, readFileSync, rmSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { embed } from './embed.mjs'

const root = fileURLToPath(new URL('..', import.meta.url))
const dev = process.argv.includes('--dev')
const { bin } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'))
const commands = Object.values(bin).map((file) => path.join(root, file))

// The first `npx leasehold` in a clone links the clone into npx's cache, and npm then runs "prepare" again.
// Rebuilding there would pull dist from under commands that are already running.
const { npm_command: npmCommand, npm_lifecycle_event: npmEvent } = process.env
if (npmCommand === 'exec' && npmEvent === 'prepare' && commands.every((file) => existsSync(file))) process.exit(0)

embed()
// A file that lost its source must not be published.
if (!dev) rmSync(path.join(root, 'dist'), { recursive: true, force: true })
const compiler = path.join(root, 'node_modules/typescript/bin/tsc')
const project = path.join(root, dev ? 'tsconfig.dev.json' : 'tsconfig.json')
const { status } = spawnSync(process.execPath, [compiler, '-p', project], { stdio: 'inherit' })
if (status === 0 && !dev) for (const file of commands) chmodSync(file, 0o755)
process.exit(status ?? 1)
