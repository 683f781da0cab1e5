import { LeaseholdError } from '../core/errors.ts'
import type { Route } from './call.ts'
import { HttpError } from './http-error.ts'

/** Finds the route of a call. */
export class Router {
  readonly #byPath = new Map<string, Map<string, Route>>()

  constructor(routes: readonly Route[]) {
    for (const route of routes) {
      let methods = this.#byPath.get(route.path)
      if (methods === undefined) this.#byPath.set(route.path, (methods = new Map()))
      if (methods.has(route.method)) {
        throw new LeaseholdError('INVALID', `There are two routes ${route.method} ${route.path}.`)
      }
      methods.set(route.method, route)
    }
  }

  /** Refuses with 404 where there is no such path, with 405 where it takes another method. */
  find(method: string, path: string): Route {
    const methods = this.#byPath.get(path)
    if (methods === undefined) {
      throw refuse(404, `There is nothing at ${path}. GET /openapi.json says what there is.`)
    }
    const route = methods.get(method)
    if (route !== undefined) return route
    const allowed = [...methods.keys()].join(', ')
    throw refuse(405, `${path} takes ${allowed}, not ${method}.`, { allow: allowed })
  }
}

function refuse(status: number, message: string, headers: Readonly<Record<string, string>> = {}): HttpError {
  return new HttpError(status, 'route', new LeaseholdError('INVALID', message), headers)
}
