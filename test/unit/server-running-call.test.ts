import type { IncomingMessage, ServerResponse } from 'node:http'
import { expect, test } from 'vitest'
import { HeldBytes } from '../../src/server/http/held-bytes.ts'
import { RunningCall } from '../../src/server/http/running-call.ts'

test('a caller who goes while it is checked who it is leaves nothing counted, however late its call is let in', () => {
  const held = new HeldBytes({ heldBytesMax: 1000, heldBytesPerConnectionMax: 1000 })
  const connection = { calls: 1, bytes: 0 }
  const call = new RunningCall({} as IncomingMessage, {} as ServerResponse, {
    connection,
    address: '::1',
    isOpen: true,
  })
  call.closed()
  call.hold(held.hold({ owner: 'address ::1', connection, drop: () => {} }))
  call.holding?.set(100)
  expect({ all: held.bytes, connection: connection.bytes }).toEqual({ all: 0, connection: 0 })
})
