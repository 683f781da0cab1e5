import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'

/** A user's project in a temporary folder. */
export class Project {
  folder = mkdtempSync(path.join(tmpdir(), 'leasehold-consumer-'))
  tarball

  constructor(tarball) {
    this.tarball = tarball
    mkdirSync(path.join(this.folder, 'out'))
    this.write({ 'package.json': '{ "private": true, "type": "module" }' })
  }

  install(...packages) {
    npm(this.folder, 'install', '--ignore-scripts', this.tarball, ...packages)
  }

  /** Writes files, each under its path. */
  write(files) {
    for (const [file, text] of Object.entries(files)) {
      mkdirSync(path.dirname(path.join(this.folder, file)), { recursive: true })
      writeFileSync(path.join(this.folder, file), text)
    }
  }

  /** What npm prints. */
  installWithScripts() {
    const { stdout, stderr } = npm(this.folder, 'install', this.tarball)
    return `${stdout}${stderr}`
  }

  evaluate(text) {
    this.write({ 'evaluate.mjs': text })
    this.run('evaluate.mjs')
  }

  /** What a program of the project prints. */
  run(file) {
    return finished(process.execPath, [file], this.folder).stdout
  }

  /** What a tool of the project prints. */
  runTool(name, ...args) {
    const { stdout, stderr } = finished(process.execPath, args, this.folder, name)
    return `${stdout}${stderr}`
  }

  read(file) {
    return readFileSync(path.join(this.folder, file), 'utf8')
  }

  /** What an executable prints. */
  runProgram(file, ...args) {
    return finished(file, args, this.folder).stdout
  }

  /** Removes a part of the project, or all of it. */
  remove(part = '.') {
    rmSync(path.join(this.folder, part), { recursive: true, force: true, maxRetries: 3 })
  }
}

export function npm(folder, command, ...args) {
  const quiet = ['--no-audit', '--no-fund', '--prefer-offline', '--no-update-notifier']
  return finished('npm', [command, ...quiet, ...args], folder)
}

/** What a program printed, which must end well. */
export function finished(command, args, cwd, name = path.basename(command)) {
  const env = { ...process.env, NEXT_TELEMETRY_DISABLED: '1' }
  const shell = process.platform === 'win32' && command === 'npm'
  const { status, stdout, stderr } = spawnSync(command, args, { cwd, encoding: 'utf8', timeout: 300_000, shell, env })
  if (status === 0) return { stdout, stderr }
  throw new Error(`${name} ${args.join(' ')} ended with ${status}\n${stdout}${stderr}`.slice(0, 4000))
}
