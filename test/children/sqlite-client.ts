/** A process with one sqlite driver, which sends what its parent asks for. */
import type { OnNotification, Request } from '../../src/core/contract/driver.ts'
import { sqlite } from '../../src/drivers/sqlite/driver.ts'

const [file = ''] = process.argv.slice(2)
const driver = sqlite({ file })
const received: OnNotification = (key, id, notification) => void process.send?.({ received: { key, id, notification } })

process.on('message', ({ call, requests }: { call: number; requests: readonly Request[] }) => {
  void driver.send(requests).then(
    (statuses) => process.send?.({ call, statuses }),
    (error: Error) => process.send?.({ call, error: error.message }),
  )
})

await driver.open()
driver.listen?.(received)
process.send?.({ ready: true })
