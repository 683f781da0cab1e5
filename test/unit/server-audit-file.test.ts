import {
  chownSync,
  closeSync,
  constants,
  lchownSync,
  mkdtempSync,
  openSync,
  readFileSync,
  readSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { execFileSync } from 'node:child_process'
import path from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { LineFile } from '../../src/server/audit/line-file.ts'
import { folderForTest } from '../support/test-folder.ts'

function parts(bytesMax = 1_000_000) {
  const counts = { auditLines: 0, auditDropped: 0 }
  const warnings: string[] = []
  const logger = { debug: () => {}, info: () => {}, warn: (message: string) => void warnings.push(message) }
  const gapLine = (missing: number): string => `${missing} missing`
  return { counts, warnings, all: { bytesMax, counts, logger, gapLine, now: () => performance.now() } }
}

test('lines are written whole and in order', async () => {
  const file = path.join(folderForTest('lines'), 'lines')
  const { all, counts } = parts(10_000_000)
  const lines = await LineFile.open(file, all)
  const wanted = Array.from({ length: 50_000 }, (_, index) => `line ${index} é`)
  for (const line of wanted) lines.write(line)
  await lines.close(10_000)
  expect(readFileSync(file, 'utf8').split('\n').slice(0, -1)).toEqual(wanted)
  expect(counts).toEqual({ auditLines: 50_000, auditDropped: 0 })
})

// /dev/full answers every write as a full disk does.
test.skipIf(process.platform !== 'linux')(
  'a full disk drops what does not fit into the queue, counts it and says so once',
  async () => {
    const { all, counts, warnings } = parts(1000)
    const lines = await LineFile.open('/dev/full', all)
    onTestFinished(() => lines.close(0))
    for (let index = 0; index < 500; index += 1) lines.write('0123456789')
    expect(counts.auditDropped).toBe(500 - Math.floor(1000 / 11))
    await expect.poll(() => warnings.length).toBeGreaterThan(0)
    expect(warnings).toHaveLength(1)
    expect(warnings[0]).toMatch(/the audit cannot be written: .*dropped/)
  },
)

test.skipIf(process.platform !== 'linux')('no owner takes more than half of the queue', async () => {
  const { all, counts } = parts(1100)
  const lines = await LineFile.open('/dev/full', all)
  onTestFinished(() => lines.close(0))
  // What is being written is in nobody's share any more.
  lines.write('0123456789')
  for (let index = 0; index < 500; index += 1) lines.write('0123456789', 'hostile')
  expect(counts.auditDropped).toBe(450)
  for (let index = 0; index < 40; index += 1) lines.write('0123456789', 'victim')
  expect(counts.auditDropped).toBe(450)
})

test.skipIf(process.platform !== 'linux')(
  'after a full disk, what was queued is written to the next file, and a line says how many are missing',
  async () => {
    const folder = folderForTest('lines')
    const file = path.join(folder, 'lines')
    execFileSync('ln', ['-s', '/dev/full', file])
    const { all, counts } = parts(50)
    const lines = await LineFile.open(file, all)
    for (let index = 0; index < 10; index += 1) lines.write(`line ${index}`)
    expect(counts.auditDropped).toBeGreaterThan(0)
    rmSync(file)
    await lines.reopen()
    await lines.close(10_000)
    const kept = 10 - counts.auditDropped
    const written = readFileSync(file, 'utf8').split('\n').slice(0, -1)
    expect(written).toEqual([
      ...Array.from({ length: kept }, (_, index) => `line ${index}`),
      `${counts.auditDropped} missing`,
    ])
  },
)

test.skipIf(process.platform !== 'linux')(
  'a reader that stops reading holds nobody up, and gets every line when it reads on',
  async () => {
    const folder = folderForTest('lines')
    const file = path.join(folder, 'pipe')
    execFileSync('mkfifo', [file])
    const reader = openSync(file, constants.O_RDONLY | constants.O_NONBLOCK)
    onTestFinished(() => closeSync(reader))
    const { all, counts } = parts(300_000)
    const lines = await LineFile.open(file, all)
    const line = 'x'.repeat(99)
    for (let index = 0; index < 2000; index += 1) lines.write(line)
    expect(counts.auditDropped).toBe(0)
    const buffer = Buffer.alloc(65_536)
    let bytes = 0
    await expect
      .poll(
        () => {
          try {
            for (;;) {
              const count = readSync(reader, buffer)
              if (count === 0) break
              bytes += count
            }
          } catch (error) {
            if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') throw error
          }
          return bytes
        },
        { timeout: 10_000, interval: 5 },
      )
      .toBe(2000 * 100)
    await lines.close(1000)
    expect(counts.auditLines).toBe(2000)
  },
)

test('a file that was moved keeps what was written before, and the new one has what comes after', async () => {
  const folder = mkdtempSync(path.join(folderForTest('lines'), 'a'))
  const file = path.join(folder, 'lines')
  const { all } = parts()
  const lines = await LineFile.open(file, all)
  lines.write('one')
  await expect.poll(() => readFileSync(file, 'utf8')).toBe('one\n')
  renameSync(file, `${file}.1`)
  await lines.reopen()
  lines.write('two')
  await lines.close(1000)
  expect(readFileSync(file, 'utf8')).toBe('two\n')
  expect(readFileSync(`${file}.1`, 'utf8')).toBe('one\n')
})

test.skipIf(process.getuid?.() !== 0)('a file, pipe or link that another user made is not written to', async () => {
  const folder = folderForTest('planted')
  const [file, pipe, link, own] = ['file', 'pipe', 'link', 'own'].map((name) => path.join(folder, name)) as [
    string,
    string,
    string,
    string,
  ]
  writeFileSync(file, '', { mode: 0o666 })
  execFileSync('mkfifo', [pipe])
  writeFileSync(own, 'precious')
  symlinkSync(own, link)
  const reading = openSync(pipe, constants.O_RDONLY | constants.O_NONBLOCK)
  onTestFinished(() => closeSync(reading))
  for (const name of [file, pipe, link]) {
    lchownSync(name, 65_534, 65_534)
    await expect(LineFile.open(name, parts().all)).rejects.toThrow('was made by another user')
  }
  // After the file was moved, somebody else was quicker.
  const moved = path.join(folder, 'audit')
  const { all } = parts()
  const lines = await LineFile.open(moved, all)
  lines.write('one')
  renameSync(moved, `${moved}.1`)
  writeFileSync(moved, '', { mode: 0o666 })
  chownSync(moved, 65_534, 65_534)
  await expect(lines.reopen()).rejects.toThrow('was made by another user')
  lines.write('two')
  await lines.close(1000)
  expect([readFileSync(`${moved}.1`, 'utf8'), readFileSync(moved, 'utf8')]).toEqual(['one\ntwo\n', ''])
  expect(readFileSync(own, 'utf8')).toBe('precious')
})
