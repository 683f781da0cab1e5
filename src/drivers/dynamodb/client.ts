/** The parts of `@aws-sdk/client-dynamodb` that this driver uses, by shape: the package is imported when the store is opened. */
import { loadFirst } from '../../core/machine/optional-package.ts'

/** A `DynamoDBClient` of `@aws-sdk/client-dynamodb`. */
export interface DynamodbClientLike {
  send(command: object, options?: { readonly abortSignal?: AbortSignal }): Promise<object>
  destroy(): void
  readonly config?: unknown
}

/** The commands that this driver sends. Each is an action of an IAM policy, too. */
type DynamodbCommand =
  | 'BatchGetItem'
  | 'PutItem'
  | 'Scan'
  | 'DescribeTable'
  | 'DescribeTimeToLive'
  | 'CreateTable'
  | 'UpdateTimeToLive'

/** Sends a command, and aborts it when it takes longer than `withinMs`. */
export type CallDynamodb = (command: DynamodbCommand, input: object, withinMs?: number) => Promise<object>

/** Where a table is. What is absent is found as the AWS SDK finds it: environment, files, instance. */
export interface DynamodbPlace {
  readonly region?: string | undefined
  readonly endpoint?: string | undefined
}

/** An item as it is sent: each value under the name of its type. */
export type DynamodbItem = Readonly<Record<string, Readonly<Record<string, unknown>> | undefined>>

type Module = Readonly<Record<string, new (input: object) => object>> & {
  readonly DynamoDBClient: new (options: object) => DynamodbClientLike
}

/** A client, and how to make its commands. */
export interface DynamodbConnection {
  readonly client: DynamodbClientLike
  readonly command: (name: DynamodbCommand, input: object) => object
}

/** The given client, or one of its own for a place. */
export async function connectionTo(source: DynamodbClientLike | DynamodbPlace): Promise<DynamodbConnection> {
  const { module } = await loadFirst('The dynamodb driver', [{ name: '@aws-sdk/client-dynamodb', fits: ['3'] }])
  const loaded = module as Module
  const client = 'send' in source ? source : new loaded.DynamoDBClient(defined(source))
  return {
    client,
    command(name, input) {
      const Command = loaded[`${name}Command`] as new (input: object) => object
      return new Command(input)
    },
  }
}

function defined(place: DynamodbPlace): object {
  return Object.fromEntries(Object.entries(place).filter(([, value]) => value !== undefined))
}

/** What this process's clock lacks to be that of AWS, in milliseconds, as far as the client found out: signatures need it. */
export function clockOffsetMs({ config }: DynamodbClientLike): number {
  const { systemClockOffset } = (config ?? {}) as { readonly systemClockOffset?: unknown }
  return typeof systemClockOffset === 'number' && Number.isFinite(systemClockOffset) ? systemClockOffset : 0
}
