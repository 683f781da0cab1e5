import type { Messages } from './output/messages.ts'
import { signalExitCode } from './exit-codes.ts'

const forwarded = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'] as const

/** A signal by which somebody wants this process to end. */
export type EndingSignal = (typeof forwarded)[number]

const forwardedSignals = ['SIGUSR1', 'SIGUSR2'] as const

/** A signal by which somebody tells a command something: to read its configuration again, say. */
export type ForwardedSignal = (typeof forwardedSignals)[number]

/**
 * What people and supervisors tell this process by signals. Until a command runs, a signal aborts `signal`; then it is
 * the command's business, and `receiver` passes it on.
 */
export class Interruption implements Disposable {
  /** Set once, if the work is to be given up. */
  by: EndingSignal | undefined
  /** Whether anybody has wanted this process to end, and be it that the command was told. */
  isWanted = false
  receiver: ((signal: EndingSignal) => void) | undefined
  /** Passes on what is for a command alone. Where none runs it is for nobody; Node would start a debugger, or end. */
  forwarder: ((signal: ForwardedSignal) => void) | undefined
  readonly #controller = new AbortController()

  constructor() {
    for (const name of forwarded) process.on(name, this.#onNotification)
    for (const name of forwardedSignals) process.on(name, this.#passSignal)
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  /** Resolves as `work` does, or rejects as soon as a signal comes. */
  async during<Result>(work: Promise<Result>): Promise<Result> {
    const { signal } = this
    return new Promise((resolve, reject) => {
      const abandon = (): void => reject(new Error('interrupted'))
      if (signal.aborted) abandon()
      signal.addEventListener('abort', abandon, { once: true })
      void work.then(resolve, reject).finally(() => signal.removeEventListener('abort', abandon))
    })
  }

  [Symbol.dispose](): void {
    for (const name of forwarded) process.off(name, this.#onNotification)
    for (const name of forwardedSignals) process.off(name, this.#passSignal)
  }

  readonly #passSignal = (name: NodeJS.Signals): void => this.forwarder?.(name as ForwardedSignal)

  readonly #onNotification = (name: NodeJS.Signals): void => {
    this.isWanted = true
    if (this.receiver !== undefined) return this.receiver(name as EndingSignal)
    this.by ??= name as EndingSignal
    this.#controller.abort()
  }
}

/** Does what a signal may interrupt. Then `untilThen` says how things stand, and the exit code names the signal. */
export async function interruptibly(
  messages: Messages,
  untilThen: string,
  work: (interruption: Interruption) => Promise<number>,
): Promise<number> {
  const interruption = new Interruption()
  try {
    return await work(interruption)
  } catch (error) {
    if (interruption.by === undefined) throw error
    messages.say(`interrupted: ${untilThen}`)
    return signalExitCode(interruption.by)
  } finally {
    interruption[Symbol.dispose]()
  }
}
