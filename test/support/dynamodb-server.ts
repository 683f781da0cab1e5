/** A private DynamoDB for tests: Amazon's local server on a free port. It has no permissions, no capacity and no replicas. */
import { spawn } from 'node:child_process'
import path from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { BatchWriteItemCommand, DynamoDBClient, ListTablesCommand, ScanCommand } from '@aws-sdk/client-dynamodb'
import { dynamodbFolder, javaProgram } from './dynamodb-program.ts'
import { freePort } from './free-port.ts'
import { makeFolder, removeFolder } from './scratch-folder.ts'
import { ServerProcess } from './server-process.ts'

const startedWithinMs = 60_000

/** What the SDK asks for: the local server takes any. */
export const dynamodbCredentials = { accessKeyId: 'tests', secretAccessKey: 's3cret' }
const region = 'us-east-1'

let tables = 0

/** A table's name that nobody else uses. */
export const freshTable = (): string => `locks-${process.pid}-${(tables += 1)}`

/** A client of the server, or of a proxy in front of it. */
export function dynamodbClient(port: number, config: object = {}): DynamoDBClient {
  return new DynamoDBClient({ region, endpoint: endpointAt(port), credentials: dynamodbCredentials, ...config })
}

/** Where the server is, or a proxy in front of it. */
export const endpointAt = (port: number): string => `http://127.0.0.1:${port}`

/** A store's URL, of a table that is made if there is none. Credentials are in the environment. */
export function dynamodbUrl(port: number, table: string): string {
  return `dynamodb://${table}?region=${region}&endpoint=${encodeURIComponent(endpointAt(port))}&createTable=true`
}

export class DynamodbServer extends ServerProcess {
  readonly port: number
  readonly #folder = makeFolder('dynamodb')
  readonly #isDurable: boolean

  private constructor(port: number, isDurable: boolean) {
    super()
    this.port = port
    this.#isDurable = isDurable
  }

  /** `isDurable`: keeps its data on disk, for tests that restart it. */
  static async start({ isDurable = false } = {}): Promise<DynamodbServer> {
    const server = new DynamodbServer(await freePort(), isDurable)
    await server.start()
    return server
  }

  /** Starts again after `kill`, on the same port. */
  async start(): Promise<void> {
    const program = dynamodbFolder()
    const args = [
      // One short-lived server a file: compiling its code well costs more than it gains.
      '-Xmx256m',
      '-XX:TieredStopAtLevel=1',
      '-XX:+UseSerialGC',
      `-Djava.library.path=${path.join(program, 'DynamoDBLocal_lib')}`,
      '-jar',
      path.join(program, 'DynamoDBLocal.jar'),
      '-sharedDb',
      '-port',
      String(this.port),
      ...(this.#isDurable ? ['-dbPath', this.#folder] : ['-inMemory']),
    ]
    const child = spawn(javaProgram(), args, { stdio: 'ignore', cwd: this.#folder })
    this.process = child
    // If this process ends with an error, the server must end with it.
    const quit = (): void => void child.kill('SIGKILL')
    process.once('exit', quit)
    child.once('exit', () => process.removeListener('exit', quit))
    const client = dynamodbClient(this.port, { maxAttempts: 1 })
    const deadline = Date.now() + startedWithinMs
    try {
      while (!(await answers(client))) {
        if (!this.isRunning || Date.now() > deadline) throw new Error('DynamoDB did not start.')
        await pause(50)
      }
    } finally {
      client.destroy()
    }
  }

  async stop(): Promise<void> {
    await this.kill()
    removeFolder(this.#folder)
  }
}

async function answers(client: DynamoDBClient): Promise<boolean> {
  try {
    await client.send(new ListTablesCommand({}), { abortSignal: AbortSignal.timeout(2000) })
    return true
  } catch {
    return false
  }
}

/** Deletes every item of a table. */
export async function deleteItems(client: DynamoDBClient, table: string): Promise<void> {
  const { Items = [] } = await client.send(new ScanCommand({ TableName: table, ProjectionExpression: 'k' }))
  const deletions = Items.flatMap(({ k }) => (k === undefined ? [] : [{ DeleteRequest: { Key: { k } } }]))
  // As many as DynamoDB takes.
  for (let from = 0; from < deletions.length; from += 25) {
    await client.send(new BatchWriteItemCommand({ RequestItems: { [table]: deletions.slice(from, from + 25) } }))
  }
}
