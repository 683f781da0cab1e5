import { once } from 'node:events'
import type { AddressInfo, Server } from 'node:net'

/** Lets a server listen on the loopback address, on a port of the system's choice by default, and resolves with the port. */
export async function listen(server: Server, port = 0): Promise<number> {
  await once(server.listen(port, '127.0.0.1'), 'listening')
  return (server.address() as AddressInfo).port
}

/** Closes a server and the connections that are open on it, if it keeps count of them as an HTTP server does. */
export async function closeServer(server: Server & { closeAllConnections?(): void }): Promise<void> {
  server.closeAllConnections?.()
  await new Promise((resolve) => server.close(resolve))
}
