import type { IncomingMessage } from 'node:http'
import { BlockList, isIP, isIPv4 } from 'node:net'
import { LeaseholdError } from '../../core/errors.ts'

/** Proxies whose word about their callers is believed. @internal */
export class TrustedProxies {
  readonly #list = new BlockList()
  readonly #isEmpty: boolean

  /** Addresses and networks: `10.0.0.7`, `10.1.0.0/16`, `::1`. */
  constructor(proxies: readonly string[]) {
    if (!Array.isArray(proxies)) throw new LeaseholdError('INVALID', "trustedProxies is a list: ['10.0.0.7'].")
    this.#isEmpty = proxies.length === 0
    for (const proxy of proxies) this.#add(String(proxy))
  }

  /**
   * Where a call comes from: the connection's other end or, if that is a trusted proxy, the last address in `X-Forwarded-For` that is
   * none. What stands before it was written by the caller, who may write anything.
   */
  addressOf({ socket, headers }: IncomingMessage): string {
    let address = plainAddress(socket.remoteAddress ?? '')
    const forwarded = headers['x-forwarded-for']
    if (this.#isEmpty || forwarded === undefined) return address
    const named = String(forwarded)
      .split(',')
      .map((each) => plainAddress(each.trim()))
    while (this.trusts(address)) {
      const before = named.pop()
      if (before === undefined || isIP(before) === 0) return address
      address = before
    }
    return address
  }

  /** Whether an address is that of a trusted proxy. */
  trusts(given: string): boolean {
    if (this.#isEmpty) return false
    const address = plainAddress(given)
    return isIP(address) !== 0 && this.#list.check(address, isIPv4(address) ? 'ipv4' : 'ipv6')
  }

  #add(proxy: string): void {
    const [address = '', bits] = proxy.split('/')
    const family = isIPv4(address) ? 'ipv4' : 'ipv6'
    const most = family === 'ipv4' ? 32 : 128
    const isNetwork = bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= most)
    if (isIP(address) === 0 || !isNetwork) {
      throw new LeaseholdError(
        'INVALID',
        `${JSON.stringify(proxy)} is no address of a proxy. Write 10.0.0.7 or 10.1.0.0/16.`,
      )
    }
    if (bits === undefined) this.#list.addAddress(address, family)
    else this.#list.addSubnet(address, Number(bits), family)
  }
}

/** An IPv4 address as such, where it came in on an IPv6 socket. */
function plainAddress(address: string): string {
  return address.replace(/^::ffff:(?=\d+\.)/i, '')
}
