import type { Messages } from './output/messages.ts'
import { signalExitCode } from './exit-codes.ts'

const endingSignals = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'] as const

/** A signal that asks this process to end. */
export type EndingSignal = (typeof endingSignals)[number]

const forwardedSignals = ['SIGUSR1', 'SIGUSR2'] as const

/** A signal for the supervised command alone, such as "read your configuration again". */
export type ForwardedSignal = (typeof forwardedSignals)[number]

/**
 * The signals that users and supervisors send to this process. An ending signal goes to `receiver` if one is set (while a
 * command runs); otherwise it aborts `signal`.
 */
export class Interruption implements Disposable {
  /** The signal that aborted the work, if one did. */
  by: EndingSignal | undefined
  /** Whether an ending signal has come, including one that `receiver` passed on. */
  isWanted = false
  /** Takes ending signals instead of the abort. */
  receiver: ((signal: EndingSignal) => void) | undefined
  /** Takes SIGUSR1 and SIGUSR2. Without a command they are ignored: by default Node starts a debugger, or ends. */
  forwarder: ((signal: ForwardedSignal) => void) | undefined
  readonly #controller = new AbortController()

  constructor() {
    for (const name of endingSignals) process.on(name, this.#onEndingSignal)
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
    for (const name of endingSignals) process.off(name, this.#onEndingSignal)
    for (const name of forwardedSignals) process.off(name, this.#passSignal)
  }

  readonly #passSignal = (name: NodeJS.Signals): void => this.forwarder?.(name as ForwardedSignal)

  readonly #onEndingSignal = (name: NodeJS.Signals): void => {
    this.isWanted = true
    if (this.receiver !== undefined) return this.receiver(name as EndingSignal)
    this.by ??= name as EndingSignal
    this.#controller.abort()
  }
}

/** Runs `work`. If a signal interrupts it, says `untilThen` and resolves to the exit code of the signal. */
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
