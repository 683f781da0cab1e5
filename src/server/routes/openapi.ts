import { json, type Route, type RouteSchema, type Schema } from '../contract/call.ts'
import { components, errorSchema } from '../contract/schemas.ts'

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
  const answer = json(documentOf([...documented, own], version))
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
      schemas: { ...components, Error: errorSchema },
      securitySchemes: { token: { type: 'http', scheme: 'bearer' } },
    },
  }
}

function operationOf({ method, path, right, summary, schema = {} }: Route): object {
  const asked = right === 'anybody' ? [] : [{ token: [] }]
  const needs = right === 'anybody' || right === 'token' ? '' : ` Needs the right '${right}'.`
  return {
    operationId: `${method.toLowerCase()}${path.replaceAll(/[^A-Za-z0-9]+/g, '_')}`,
    summary,
    description: `${summary}${needs}`,
    security: asked,
    parameters: [...parametersOf(schema, 'query'), ...parametersOf(schema, 'header')],
    ...(schema.body !== undefined && { requestBody: { required: true, content: contentOf(schema.body) } }),
    responses: {
      200: {
        description: 'Done.',
        ...(schema.answer !== undefined && { content: contentOf(schema.answer, schema.answerType) }),
      },
      default: { description: 'Refused.', content: contentOf({ $ref: '#/components/schemas/Error' }) },
    },
  }
}

function parametersOf(schema: RouteSchema, place: 'query' | 'header'): object[] {
  const parameters = place === 'query' ? schema.query : schema.headers
  return Object.entries(parameters ?? {}).map(([name, each]) => ({
    name,
    in: place,
    required: schema.required?.includes(name) ?? false,
    schema: each,
  }))
}

function contentOf(schema: Schema, type = 'application/json'): object {
  return { [type]: { schema } }
}
