import type { Company } from './company.ts'

/** Registers one test of the client, titled as the fact it shows. */
export type ClientFact = (title: string, body: (company: Company) => Promise<void>) => void
