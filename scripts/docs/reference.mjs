/** Writes docs/reference out of the published declarations: a page for each entry of package.json. */
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'

/**
 * @param {string} root of the repository
 * @param {(...options: string[]) => void} typedoc runs TypeDoc
 */
export function referenceOf(root, typedoc) {
  const folder = path.join(root, 'site/.entries')
  const docs = path.join(root, 'docs/reference')
  for (const each of [folder, docs]) rmSync(each, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true })

  // TypeDoc names a page after its file, so each entry gets a file of its name.
  const { exports } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'))
  const entries = Object.entries(exports).filter(([, target]) => typeof target === 'object')
  for (const [name, { require: target }] of entries) {
    const declarations = `../../${target.types.slice('./'.length).replace(/\.d\.ts$/, '.js')}`
    writeFileSync(path.join(folder, `${pageOf(name)}.ts`), `export * from '${declarations}'\n`)
  }
  const compilerOptions = {
    target: 'es2023',
    lib: ['es2024', 'esnext.disposable', 'dom'],
    module: 'nodenext',
    types: ['node'],
    typeRoots: ['../../node_modules/@types'],
    skipLibCheck: true,
    noEmit: true,
  }
  writeFileSync(path.join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, include: ['*.ts'] }))
  const options = {
    plugin: ['typedoc-plugin-markdown'],
    entryPoints: entries.map(([name]) => `${pageOf(name)}.ts`),
    tsconfig: 'tsconfig.json',
    out: docs,
    router: 'module',
    readme: 'none',
    name: 'Generated reference',
    entryFileName: 'index',
    disableSources: true,
    excludeInternal: true,
    excludeExternals: true,
    skipErrorChecking: true,
    hideBreadcrumbs: true,
    hidePageHeader: true,
    useCodeBlocks: true,
    sanitizeComments: true,
    validation: false,
    logLevel: 'Error',
  }
  writeFileSync(path.join(folder, 'typedoc.json'), JSON.stringify(options))
  typedoc('--options', path.join(folder, 'typedoc.json'))
  for (const [name] of entries) {
    const page = path.join(docs, `${pageOf(name)}.md`)
    writeFileSync(page, readFileSync(page, 'utf8').replace(/^# .*$/m, `# ${moduleOf(name)}`))
  }
  const sidebar = entries.map(([name]) => ({ text: moduleOf(name), link: `/reference/${pageOf(name)}` }))
  writeFileSync(path.join(docs, 'sidebar.json'), JSON.stringify(sidebar))
}

/** How a program imports the entry. */
function moduleOf(name) {
  return name === '.' ? 'leasehold' : `leasehold/${name.slice(2)}`
}

function pageOf(name) {
  return moduleOf(name).replace('/', '-')
}
