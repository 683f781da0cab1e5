// Turns each src/**/*.{sql,lua,html,css,svg,js} into a sibling NAME.EXT.generated.ts that exports the text.
// Scripts and pages thus live in real files, while the package reads no file at run time. Lua loses its comments and
// indentation on the way. Libraries that the dashboard's page loads are put beside it in the same way, with their licences.
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const embeddable = /\.(sql|lua|html|css|svg|js)$/
const generated = /\.generated\.ts$/

/** Brings the generated files of `folder` up to date: writes only what changed, removes what lost its source. */
export function embed(folder = path.join(root, 'src')) {
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    const file = path.join(entry.parentPath, entry.name)
    if (entry.isFile() && embeddable.test(file)) writeWhenChanged(`${file}.generated.ts`, moduleOf(file))
    else if (generated.test(file) && !isLibrary(file) && !existsSync(file.replace(generated, ''))) rmSync(file)
  }
  embedLibraries()
}

function isLibrary(file) {
  return libraries.some(({ target }) => file === path.join(root, `${target}.generated.ts`))
}

/** Where the text of each library of the page is written, and from which package it comes. The files are complete modules for browsers. */
const libraries = [
  { target: 'src/dashboard/libraries/dagre.js', script: '@dagrejs/dagre/dist/dagre.esm.js', licence: '.LEGAL.txt' },
]

function embedLibraries() {
  for (const { target, script, licence } of libraries) {
    const file = path.join(root, 'node_modules', script)
    const code = readFileSync(file, 'utf8').replaceAll(/^(?:\/\/# sourceMappingURL|\/\*! For license).*$/gm, '')
    const text = `${readFileSync(`${file}${licence}`, 'utf8').trim()}\n${code.trim()}\n`
    const written = path.join(root, `${target}.generated.ts`)
    mkdirSync(path.dirname(written), { recursive: true })
    writeWhenChanged(
      written,
      `// Written by scripts/embed.mjs from ${script}.\nexport default ${JSON.stringify(text)}\n`,
    )
  }
}

function moduleOf(file) {
  const source = readFileSync(file, 'utf8')
  const text = JSON.stringify(file.endsWith('.lua') ? withoutComments(source, file) : source)
  return `// Written by scripts/embed.mjs from ${path.basename(file)}. Edit that file.\nexport default ${text}\n`
}

/**
 * A Lua script without indentation and the lines that are comments, which are a third of it: nobody reads it where it runs. Only whole lines are
 * left out, and a text that goes on over lines, where such a line would be part of it, is refused.
 */
function withoutComments(source, file) {
  if (/\[=*\[|\\$/m.test(source)) throw new Error(`${file}: a text or comment over several lines cannot be embedded.`)
  return source
    .split('\n')
    .filter((line) => !/^\s*(?:--|$)/.test(line))
    .map((line) => `${line.trimStart()}\n`)
    .join('')
}

function writeWhenChanged(file, content) {
  if (!existsSync(file) || readFileSync(file, 'utf8') !== content) writeFileSync(file, content)
}

if (process.argv[1] === fileURLToPath(import.meta.url)) embed()
