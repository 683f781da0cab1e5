/** Keeps the figures of the README equal to those of docs/benchmarks.md. */

const head = '| what is measured | against | Leasehold, the other | Leasehold is |'
const library = /^(?:redlock|redis-semaphore|proper-lockfile|advisory-lock|`lock\(\)` of etcd3)$/

/** The README with the rows of this page about the libraries that the README compares. */
export function readmeWith(readme: string, page: string): string {
  const rows = page
    .split('\n')
    .filter((line) => line.startsWith('| ['))
    .map((line) => line.split(' | '))
    .filter(([, against = '']) => library.test(against))
    .map((cells) => `${cells.slice(0, 4).join(' | ').replace('](benchmarks/', '](docs/benchmarks/')} |`)
  const [before, after = ''] = readme.split(`${head}\n`)
  const rest = after.slice(after.indexOf('\n\n'))
  return `${before}${[head, '| --- | --- | --- | --- |', ...rows].join('\n')}${rest}`
}
