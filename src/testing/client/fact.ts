import type { ClientGroup } from './client-group.ts'

/** Registers one test of the client, titled as the fact it shows. */
export type ClientFact = (title: string, body: (group: ClientGroup) => Promise<void>) => void
