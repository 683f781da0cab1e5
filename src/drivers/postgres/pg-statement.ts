import type { PgValue } from './connections.ts'
import type { PgClient } from './pg-client.ts'

/** The connection inside a `Client` of pg, as pg shows it to packages that bring statements of their own. */
interface PgConnection {
  readonly stream: { cork?(): void; uncork?(): void }
  readonly parsedStatements: Readonly<Record<string, string | undefined>>
  parse(statement: { readonly name: string; readonly text: string }): void
  bind(values: { readonly statement: string; readonly values: readonly PgValue[]; valueMapper: typeof asText }): void
  execute(portal: { readonly portal: string }): void
  sync(): void
}

type Done = (error: Error | null, answer?: string) => void

/**
 * A statement that answers one text. pg lets packages bring statements of their own (pg-cursor does); this one asks for no
 * description of its row and parses none, which spares a quarter of the client's cost of a statement.
 */
class PgStatement {
  /** pg reads it when the statement has been parsed. */
  readonly name: string
  readonly text: string
  /** pg wraps it if the client has a `query_timeout`. */
  callback: Done
  readonly #values: readonly PgValue[]
  #answer: string | undefined

  constructor(name: string, text: string, values: readonly PgValue[], done: Done) {
    this.name = name
    this.text = text
    this.callback = done
    this.#values = values
  }

  submit(connection: PgConnection): null {
    const { name, text } = this
    // In one write: each message would be a packet of its own.
    connection.stream.cork?.()
    try {
      if (name === '' || connection.parsedStatements[name] === undefined) connection.parse({ name, text })
      connection.bind({ statement: name, values: this.#values, valueMapper: asText })
      connection.execute({ portal: '' })
      connection.sync()
    } finally {
      connection.stream.uncork?.()
    }
    return null
  }

  handleDataRow({ fields }: { readonly fields: readonly string[] }): void {
    this.#answer = fields[0]
  }

  handleError(error: Error): void {
    this.callback(error)
  }

  handleReadyForQuery(): void {
    this.callback(null, this.#answer)
  }

  // Other events that pg calls.
  handleCommandComplete(): void {}
  handleEmptyQuery(): void {}
  handlePortalSuspended(): void {}
  handleRowDescription(): void {}
}

function asText(value: PgValue): string | null {
  return value === null || typeof value === 'string' ? value : String(value)
}

/** The text in the first column of the only row that a statement answers. Under a name it is parsed once a connection. */
export function ask(
  client: PgClient,
  text: string,
  values: readonly PgValue[],
  name: string | undefined,
): Promise<string> {
  return takesStatements(client) ? submit(client, text, values, name ?? '') : query(client, text, values, name)
}

function submit(client: PgClient, text: string, values: readonly PgValue[], name: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const statement = new PgStatement(name, text, values, (error, answer = '') => {
      if (error === null) resolve(answer)
      else reject(error)
    })
    void client.query(statement)
  })
}

async function query(
  client: PgClient,
  text: string,
  values: readonly PgValue[],
  name: string | undefined,
): Promise<string> {
  const { rows } = await client.query({ text, values: [...values], ...(name !== undefined && { name }) })
  return (Object.values(rows[0] ?? {})[0] ?? '') as string
}

/** Whether pg takes such a statement: the native binding does not, nor a client that pipelines. */
function takesStatements(client: PgClient): boolean {
  const { connection, pipeline } = client as { connection?: Partial<PgConnection>; pipeline?: boolean }
  return connection?.parsedStatements !== undefined && pipeline !== true
}
