/** A Cloudflare Worker that plays the scenario when it is called. */
import { play, type Stage } from './scenario.ts'

export default {
  async fetch(request: Request): Promise<Response> {
    try {
      return Response.json(await play((await request.json()) as Stage))
    } catch (error) {
      return new Response(error instanceof Error ? `${error.stack}` : String(error), { status: 500 })
    }
  },
}
