import { execFile } from 'node:child_process'
import { readdirSync } from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'
import { pageFiles } from '../../src/dashboard/page-files.ts'

const scripts = pageFiles.filter((file) => file.path.endsWith('.js'))
const page = pageFiles.find((file) => file.path === '/')?.text ?? ''

test('the scripts of the page have the types they say', async () => {
  const output = await new Promise<string>((resolve) => {
    const args = ['node_modules/typescript/bin/tsc', '-p', 'src/dashboard/page', '--pretty', 'false']
    execFile(process.execPath, args, { timeout: 25_000 }, (error, stdout, stderr) =>
      resolve(stdout + stderr + (error?.killed === true ? 'tsc took too long' : '')),
    )
  })
  expect(output).toBe('')
})

test('every file of the page is served, and every file that it asks for', () => {
  const names = readdirSync('src/dashboard/page').filter((name) => /\.(js|css|svg)$/.test(name))
  const served = pageFiles.map((file) => path.posix.basename(file.path))
  expect(served.filter((name) => name !== '').toSorted()).toEqual([...names, 'dagre.js'].toSorted())
  const asked = [
    ...[...page.matchAll(/(?:src|href)="([^"#]+)"/g)].map(([, address]) => `/${address}`),
    ...scripts.flatMap(({ text }) =>
      [...text.matchAll(/ from '\.\/([^']+)'/g)].map(([, name]) => `/dashboard/${name}`),
    ),
  ]
  expect(asked.filter((address) => !pageFiles.some((file) => file.path === address))).toEqual([])
})

test('nothing is inline, nothing comes from elsewhere, and text is put in as text only', () => {
  expect(page).not.toMatch(/<script(?![^>]*\ssrc=)|<style|\sstyle=|\son\w+=|javascript:/i)
  for (const { path: name, text } of pageFiles) {
    expect({ name, addresses: text.match(/https?:\/\/(?!www\.w3\.org\/2000\/svg)[^\s'"]*/g) }).toEqual({
      name,
      addresses: null,
    })
  }
  for (const { path: name, text } of scripts) {
    const ways = text.match(
      /innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|srcdoc|cssText/g,
    )
    expect({ name, ways }).toEqual({ name, ways: null })
  }
})
