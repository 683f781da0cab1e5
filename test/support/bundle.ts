import { readFileSync } from 'node:fs'
import { gzipSync } from 'node:zlib'
import { rolldown } from 'rolldown'
import { withoutSqlComments } from '../../scripts/sql-comments.mjs'

/** A module and its imports, bundled into one file. */
export interface Bundle {
  readonly code: string
  /** The size of the code as a browser downloads it. */
  readonly gzippedBytes: number
  /** Modules that the bundle still imports. */
  readonly imports: readonly string[]
}

const entryName = 'bundled-by-a-test'

/** Bundles a module, by its text, as an application's build would: minified, without what nobody uses. */
export async function bundle(text: string): Promise<Bundle> {
  const build = await rolldown({
    input: entryName,
    platform: 'neutral',
    // As `sideEffects` in package.json tells bundlers.
    treeshake: {
      moduleSideEffects: [
        { test: new RegExp(entryName), sideEffects: true },
        { test: /./, sideEffects: false },
      ],
    },
    external: (specifier) => !specifier.startsWith('.') && !specifier.startsWith('/') && specifier !== entryName,
    plugins: [
      {
        name: entryName,
        resolveId: (specifier) => (specifier === entryName ? `${process.cwd()}/${entryName}.ts` : null),
        load: (id) => {
          if (id === `${process.cwd()}/${entryName}.ts`) return text
          // As the package is built.
          if (!id.endsWith('.sql.generated.ts')) return null
          return `export default ${JSON.stringify(withoutSqlComments(readFileSync(id.replace('.generated.ts', ''), 'utf8')))}`
        },
      },
    ],
  })
  try {
    const { output } = await build.generate({ format: 'esm', minify: true, codeSplitting: false })
    const [{ code, imports, dynamicImports }] = output
    return { code, gzippedBytes: gzipSync(code, { level: 9 }).length, imports: [...imports, ...dynamicImports] }
  } finally {
    await build.close()
  }
}
