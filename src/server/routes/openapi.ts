import { dataAge, listedId, protocol, protocolVersion, runner, wireError, wireStatus } from '../../core/wire/replies.ts'
import { duration, positiveDuration, request } from '../../core/wire/requests.ts'
import type { AnyFields, Optional, Schema } from '../../core/wire/schema.ts'
import { yearMs, type Bounds } from '../../core/contract/bounds.ts'
import { fixed, json, type JsonSchema, type Route, type RouteExamples, type RouteSchema } from '../contract/call.ts'
import { problemSchema, problemType } from '../contract/problem.ts'

/** What every refusal carries. */
const errorReply: Schema = { kind: 'object', fields: { error: wireError }, isOpen: false }

/** Schemas that others refer to by name. */
const names: ReadonlyMap<Schema | Optional, string> = new Map<Schema | Optional, string>([
  [request, 'Request'],
  [wireStatus, 'ClaimStatus'],
  [runner, 'Runner'],
  [wireError, 'ErrorDetail'],
  [errorReply, 'Error'],
  [problemSchema, 'Problem'],
])

/** What the document says of schemas that every client carries, and that are short for that reason. */
const remarks: ReadonlyMap<Schema | Optional, JsonSchema> = new Map<Schema | Optional, JsonSchema>([
  [listedId, { description: 'Empty unless the caller named it.' }],
  [dataAge, { description: 'For how long the store has kept its claims; null: for ever.' }],
  [protocol, { const: protocolVersion }],
  [duration, { maximum: yearMs }],
  [positiveDuration, { maximum: yearMs }],
])

/** `GET /openapi.json`: the routes for programs, this one too, as an OpenAPI document. */
export function openapiRoute(routes: readonly Route[], version: string): Route {
  const own: Route = {
    method: 'GET',
    path: '/openapi.json',
    right: 'anybody',
    summary: 'This document.',
    schema: { answer: { type: 'object' } },
    handle: () => answer,
  }
  const documented = routes.filter((route) => route.documented !== false)
  const answer = fixed(json(documentOf([...documented, own], version)))
  return own
}

/** The OpenAPI document of some routes. */
function documentOf(routes: readonly Route[], version: string): object {
  const paths: Record<string, Record<string, object>> = {}
  for (const route of routes) (paths[route.path] ??= {})[route.method.toLowerCase()] = operationOf(route)
  return {
    openapi: '3.1.0',
    info: { title: 'Leasehold', version, description: 'Locks held on a lease, over HTTP.' },
    paths,
    components: {
      schemas: Object.fromEntries([...names].map(([schema, name]) => [name, written(schema)])),
      securitySchemes: { token: { type: 'http', scheme: 'bearer' } },
    },
  }
}

function operationOf({ method, path, right, summary, schema = {}, takesBody, problems }: Route): object {
  const { examples = {} } = schema
  const asked = right === 'anybody' ? [] : [{ token: [] }]
  const needs = right === 'anybody' || right === 'token' ? '' : ` Needs the right '${right}'.`
  return {
    operationId: `${method.toLowerCase()}${path.replaceAll(/[^A-Za-z0-9]+/g, '_').replace(/_$/, '')}`,
    summary,
    description: `${summary}${needs}`,
    security: asked,
    parameters: (['path', 'query', 'header'] as const).flatMap((place) => parametersOf(schema, place, examples)),
    ...(schema.body !== undefined && {
      requestBody: {
        required: takesBody !== 'optional',
        content: contentOf(schema.body, undefined, examples.body),
      },
    }),
    responses: {
      200: {
        description: 'Done.',
        ...(schema.answer !== undefined && { content: contentOf(schema.answer, schema.answerType, examples.answer) }),
      },
      default: {
        description: 'Refused.',
        content: problems === true ? contentOf(problemSchema, problemType, examples.problem) : contentOf(errorReply),
      },
    },
  }
}

function parametersOf(
  schema: RouteSchema,
  place: 'path' | 'query' | 'header',
  { parameters: shown }: RouteExamples,
): object[] {
  const parameters = place === 'header' ? schema.headers : schema[place]
  return Object.entries(parameters ?? {}).map(([name, field]) => ({
    name,
    in: place,
    required: place === 'path' || (schema.required?.includes(name) ?? false),
    schema: jsonSchemaOf(field),
    ...(shown?.[name] !== undefined && { example: shown[name] }),
  }))
}

function contentOf(schema: Schema | JsonSchema, type = 'application/json', example?: unknown): object {
  return { [type]: { schema: jsonSchemaOf(schema), ...(example !== undefined && { example }) } }
}

/** A schema of ours as JSON Schema, by its name if it has one. JSON Schema itself is passed through. */
function jsonSchemaOf(schema: Schema | Optional | JsonSchema): JsonSchema {
  if (!isOurs(schema)) return schema
  const name = names.get(schema)
  return name === undefined ? written(schema) : { $ref: `#/components/schemas/${name}` }
}

function isOurs(schema: Schema | Optional | JsonSchema): schema is Schema | Optional {
  return typeof (schema as Partial<Schema>).kind === 'string'
}

function written(schema: Schema | Optional): JsonSchema {
  const described = 'description' in schema && { description: schema.description }
  return { ...shapeOf(schema), ...described, ...remarks.get(schema) }
}

function shapeOf(schema: Schema | Optional): JsonSchema {
  switch (schema.kind) {
    case 'text': {
      const { least, most, format } = schema
      return { type: 'string', format, ...(most < Infinity && { minLength: least, maxLength: most }) }
    }
    case 'whole':
      return { type: 'integer', ...boundsOf(schema.bounds) }
    case 'number':
      return { type: 'number', ...boundsOf(schema.bounds) }
    case 'flag':
      return { type: 'boolean' }
    case 'metadata':
      return { type: 'object' }
    case 'choice':
      return { enum: schema.among }
    case 'list': {
      const { of, most } = schema
      return { type: 'array', items: jsonSchemaOf(of), ...(most < Infinity && { maxItems: most }) }
    }
    case 'object':
      return objectOf(schema.fields, schema.isOpen)
    case 'variants': {
      const { tag, forms } = schema
      return { oneOf: Object.entries(forms).map(([name, fields]) => formOf(tag, name, fields)) }
    }
    case 'nullable': {
      const { type, ...rest } = jsonSchemaOf(schema.of)
      return { ...rest, type: [type, 'null'] }
    }
    case 'optional':
    case 'refined':
      return jsonSchemaOf(schema.of)
  }
}

/** One form of several: its tag is a constant. */
function formOf(tag: string, name: string, fields: AnyFields): JsonSchema {
  const { required, properties, ...rest } = objectOf(fields, false)
  return { ...rest, required: [tag, ...required], properties: { [tag]: { const: name }, ...properties } }
}

interface ObjectSchema extends JsonSchema {
  readonly required: readonly string[]
  readonly properties: Readonly<Record<string, JsonSchema>>
}

function objectOf(fields: AnyFields, isOpen: boolean): ObjectSchema {
  const entries = Object.entries(fields)
  return {
    type: 'object',
    required: entries.filter(([, field]) => field.kind !== 'optional').map(([name]) => name),
    properties: Object.fromEntries(entries.map(([name, field]) => [name, jsonSchemaOf(field)])),
    ...(!isOpen && { additionalProperties: false }),
  }
}

function boundsOf({ least, most }: Bounds): JsonSchema {
  return {
    // The least number there is stands for whatever is above 0.
    ...(least === Number.MIN_VALUE ? { exclusiveMinimum: 0 } : least > -Infinity && { minimum: least }),
    ...(most < Infinity && { maximum: most }),
  }
}
