// The programs of docs/guides, each built and run in an empty folder as its page says:
//
//   ```js project      a file, named by its first line (`// app.mjs`); `json project` is tsconfig.json
//   ```sh project      commands, in order; `npm install` takes the packed tarball for leasehold
//   ```text output     what the commands since the last such block have printed
import assert from 'node:assert/strict'
import { readFileSync, readdirSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { finished } from './project.mjs'

const folder = fileURLToPath(new URL('../../docs/guides', import.meta.url))

export const rows = new Map(
  readdirSync(folder)
    .filter((file) => file.endsWith('.md'))
    .map((file) => [
      `guide-${path.basename(file, '.md')}, as its page says`,
      (project) => follow(readFileSync(path.join(folder, file), 'utf8'), project),
    ]),
)

function follow(page, project) {
  const blocks = [...page.matchAll(/^```(\w+) (project|output)\n([^]*?)^```$/gm)].map(
    ([, language = '', mark = '', text = '']) => ({ language, mark, text }),
  )
  // Files first: a reader has made all of them before running anything.
  for (const { text } of blocks.filter((each) => each.mark === 'project' && each.language !== 'sh')) {
    const name = /^\/\/ (\S+)\n/.exec(text)?.[1] ?? 'tsconfig.json'
    project.write({ [name]: text })
  }
  let printed = ''
  for (const { language, mark, text } of blocks) {
    if (mark === 'output') {
      assert.equal(printed, text)
      printed = ''
    } else if (language === 'sh') {
      const script = text.replaceAll(
        /^(npm install .*?)\bleasehold\b(.*)$/gm,
        `$1'${project.tarball}'$2 --ignore-scripts`,
      )
      const quiet = text.startsWith('npm install') ? `{\n${script}} > npm.log` : script
      // A page that failed leaves no server behind.
      const ending = "trap 'kill $(jobs -p) 2> /dev/null || true' EXIT\n"
      printed += finished('bash', ['-euo', 'pipefail', '-c', `${ending}${quiet}`], project.folder).stdout
    }
  }
  assert.equal(printed, '', 'The page does not say what its last commands print.')
}
