import { createServer } from 'node:net'

/** Ports below 32768: above them the system hands out ports of its own, which may take one between finding and using it. */
const firstPort = 20_000
const lastPort = 32_000

/** Test files that run side by side take every so many ports, each others than the rest, so that they never try the same. */
const lanes = 20
const lane = Number(process.env['VITEST_POOL_ID'] ?? 0) % lanes

/** Ports handed out before, on which nobody may listen yet. */
const given = new Set<number>()

/** A port on the loopback address that nobody listens on now. Chosen at random, so that two runs seldom try the same. */
export async function freePort(): Promise<number> {
  for (let attempt = 0; attempt < 200; attempt += 1) {
    const port = randomPort(lastPort)
    if (await areFree(port)) return port
  }
  throw new Error(`No free port was found between ${firstPort} and ${lastPort}.`)
}

/** The same, with a second port `apart` above it: what a Redis cluster's nodes talk to each other through. */
export async function freePortPair(apart: number): Promise<number> {
  for (let attempt = 0; attempt < 200; attempt += 1) {
    const port = randomPort(lastPort - apart)
    if (await areFree(port, port + apart)) return port
  }
  throw new Error(`No two free ports ${apart} apart were found between ${firstPort} and ${lastPort}.`)
}

function randomPort(below: number): number {
  return firstPort + lane + lanes * Math.floor((Math.random() * (below - firstPort)) / lanes)
}

async function areFree(...ports: number[]): Promise<boolean> {
  if (ports.some((port) => given.has(port))) return false
  // Before the first await: a concurrent search must not hand out the same port.
  for (const port of ports) given.add(port)
  for (const port of ports) if (!(await isFree(port))) return false
  return true
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer()
    server.once('error', () => resolve(false))
    server.listen({ port, host: '127.0.0.1', exclusive: true }, () => server.close(() => resolve(true)))
  })
}
