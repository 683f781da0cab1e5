/** Holds requests and responses to GitHub's own OpenAPI description. */
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { Ajv, type ValidateFunction } from 'ajv'
import addFormats from 'ajv-formats'

type Document = Readonly<Record<string, unknown>>

interface Parameter {
  readonly name: string
  readonly in: 'path' | 'query' | 'header'
  readonly required?: boolean
  readonly schema: Document
}

export interface Exchange {
  readonly method: string
  readonly path: string
  readonly query: ReadonlyMap<string, string>
  readonly body: unknown
  readonly status: number
  readonly answer: unknown
}

/** Answers that GitHub may give to anything, declared for the operation or not. */
const anywhere = new Set([401, 403, 404, 410, 429, 500, 502, 503])

export class OpenApi {
  readonly #document: Document
  readonly #ajv = new Ajv({ strict: false, allErrors: true, coerceTypes: false })
  readonly #known = new Map<Document, Set<string>>()
  readonly #compiled = new Map<unknown, ValidateFunction>()
  readonly #operations: readonly { readonly pattern: RegExp; readonly methods: Document }[]
  /** How many exchanges were checked, by operation. */
  readonly checked = new Map<string, number>()

  constructor() {
    // The package's own entry would load every version of GitHub, some 400 MB.
    const entry = createRequire(import.meta.url).resolve('@octokit/openapi')
    const file = entry.replace(/index\.js$/, 'generated/api.github.com.json')
    this.#document = JSON.parse(readFileSync(file, 'utf8')) as Document
    ;(addFormats as unknown as (ajv: Ajv) => void)(this.#ajv)
    this.#operations = Object.entries(this.#document['paths'] as Document)
      .filter(([path]) => path.startsWith('/repos/{owner}/{repo}'))
      .map(([path, methods]) => ({
        pattern: new RegExp(`^${path.replaceAll(/\{[^}]+\}/g, '[^/]+')}$`),
        methods: methods as Document,
      }))
  }

  /** Fields that a schema of the description says are always there. */
  required(schema: string): readonly string[] {
    return this.#find(`#/components/schemas/${schema}`)['required'] as string[]
  }

  /** How an exchange differs from the description; empty if it does not. */
  complaints(exchange: Exchange): string[] {
    const { method, path, status, answer } = exchange
    const operation = this.#operationOf(method, path)
    if (operation === undefined) return [`${method} ${path} is no request that GitHub knows.`]
    const name = String(operation['operationId'])
    this.checked.set(name, (this.checked.get(name) ?? 0) + 1)
    const complaints = [...this.#queryComplaints(operation, exchange), ...this.#bodyComplaints(operation, exchange)]
    const responses = operation['responses'] as Document
    const response = this.#resolve(responses[String(status)] as Document | undefined)
    if (response === undefined) {
      if (status === 304) complaints.push(...(answer === undefined ? [] : ['A 304 has no body.']))
      else if (!anywhere.has(status)) complaints.push(`${name} never answers ${status}.`)
      else complaints.push(...this.#mismatches(this.#find('#/components/schemas/basic-error'), answer, 'error'))
      return complaints.map((complaint) => `${name}: ${complaint}`)
    }
    const schema = schemaIn(response)
    if (schema === undefined) complaints.push(...(answer === undefined ? [] : [`${status} has no body.`]))
    else complaints.push(...this.#mismatches(schema, answer, 'answer'))
    return complaints.map((complaint) => `${name}: ${complaint}`)
  }

  #operationOf(method: string, path: string): Document | undefined {
    const found = this.#operations
      .filter(({ pattern, methods }) => pattern.test(path) && methods[method.toLowerCase()] !== undefined)
      // `/issues/comments/7` is no issue called "comments".
      .toSorted((a, b) => placeholders(a.pattern) - placeholders(b.pattern))[0]
    return found?.methods[method.toLowerCase()] as Document | undefined
  }

  #queryComplaints(operation: Document, { query }: Exchange): string[] {
    const declared = (operation['parameters'] as Document[]).map(
      (parameter) => this.#resolve(parameter) as unknown as Parameter,
    )
    const complaints: string[] = []
    for (const [name, text] of query) {
      const parameter = declared.find((candidate) => candidate.in === 'query' && candidate.name === name)
      if (parameter === undefined) complaints.push(`there is no query parameter ${name}`)
      else {
        const value = parameter.schema['type'] === 'integer' ? Number(text) : text
        complaints.push(...this.#mismatches(parameter.schema, value, `query ${name}`))
      }
    }
    return complaints
  }

  #bodyComplaints(operation: Document, { body }: Exchange): string[] {
    const schema = schemaIn(this.#resolve(operation['requestBody'] as Document | undefined))
    if (schema === undefined) return body === undefined ? [] : ['it takes no body']
    const complaints = this.#mismatches(schema, body, 'body')
    const properties = schema['properties'] as Document | undefined
    if (properties === undefined || typeof body !== 'object' || body === null) return complaints
    const strange = Object.keys(body).filter((name) => !Object.hasOwn(properties, name))
    return [...complaints, ...strange.map((name) => `body: there is no field ${name}`)]
  }

  #mismatches(schema: Document, value: unknown, location: string): string[] {
    // Lists repeat the same items: an item that was valid before is not validated again.
    if (schema['type'] === 'array' && Array.isArray(value) && schema['items'] !== undefined) {
      const items = schema['items'] as Document
      const known = this.#known.get(items) ?? new Set<string>()
      this.#known.set(items, known)
      return value.flatMap((item: unknown, index) => {
        const text = JSON.stringify(item)
        if (known.has(text)) return []
        const found = this.#mismatches(items, item, `${location}/${index}`)
        if (found.length === 0) known.add(text)
        return found
      })
    }
    let validate = this.#compiled.get(schema)
    if (validate === undefined) {
      validate = this.#ajv.compile(this.#asJsonSchema(schema))
      this.#compiled.set(schema, validate)
    }
    if (validate(value)) return []
    return (validate.errors ?? []).map(({ instancePath, message }) => `${location}${instancePath} ${message ?? ''}`)
  }

  /** The schema by itself, with all that it refers to, in the words of JSON Schema. */
  #asJsonSchema(schema: Document): Document {
    const definitions: Record<string, unknown> = {}
    const translate = (value: unknown): unknown => {
      if (Array.isArray(value)) return value.map(translate)
      if (typeof value !== 'object' || value === null) return value
      const { $ref, nullable, example: _, examples: __, discriminator: ___, ...rest } = value as Document
      if (typeof $ref === 'string') {
        const name = $ref.replaceAll(/[^\w-]/g, '_')
        if (!(name in definitions)) {
          definitions[name] = {}
          definitions[name] = translate(this.#find($ref))
        }
        return { $ref: `#/definitions/${name}` }
      }
      const translated = Object.fromEntries(Object.entries(rest).map(([name, part]) => [name, translate(part)]))
      return nullable === true ? { anyOf: [{ type: 'null' }, translated] } : translated
    }
    return { ...(translate(schema) as Document), definitions }
  }

  #resolve(value: Document | undefined): Document | undefined {
    return typeof value?.['$ref'] === 'string' ? this.#find(value['$ref']) : value
  }

  #find(reference: string): Document {
    const found = reference
      .slice(2)
      .split('/')
      .reduce<unknown>((part, name) => (part as Document)[name], this.#document)
    return found as Document
  }
}

function schemaIn(part: Document | undefined): Document | undefined {
  const content = part?.['content'] as Document | undefined
  const json = content?.['application/json'] as Document | undefined
  return json?.['schema'] as Document | undefined
}

function placeholders(pattern: RegExp): number {
  return pattern.source.split('[^/]+').length
}
