import { expect, test } from 'vitest'
import { commentDocument } from '../support/github/documents.ts'
import { OpenApi, type Exchange } from '../support/github/openapi.ts'

const openapi = new OpenApi()
const stored = { id: 7, issue: 1, author: 'someone', body: 'Hello', createdAt: 0, updatedAt: 0 }
const comment = commentDocument('acme/tasks', stored, 'write') as Record<string, unknown>
const listing: Exchange = {
  method: 'GET',
  path: '/repos/acme/tasks/issues/1/comments',
  query: new Map([['per_page', '100']]),
  body: undefined,
  status: 200,
  answer: [comment],
}
const posting: Exchange = {
  ...listing,
  method: 'POST',
  query: new Map(),
  body: { body: 'Hello' },
  status: 201,
  answer: comment,
}

test("GitHub's description has nothing to say against what GitHub would say", () => {
  expect(openapi.complaints(listing)).toEqual([])
  expect(openapi.complaints(posting)).toEqual([])
})

test.each<[string, Exchange]>([
  ['a request that GitHub does not know', { ...listing, path: '/repos/acme/tasks/issues/1/claims' }],
  ['a query parameter that is not there', { ...listing, query: new Map([['page_size', '100']]) }],
  ['a query parameter of another type', { ...listing, query: new Map([['since', 'yesterday']]) }],
  ['a body without what it must have', { ...posting, body: {} }],
  ['a body with what nobody asked for', { ...posting, body: { body: 'Hello', labels: [] } }],
  ['an answer of another status', { ...posting, status: 200 }],
  ['an answer that lacks a field', { ...posting, answer: { ...comment, issue_url: undefined } }],
  ['an answer with a field of another type', { ...listing, answer: [{ ...comment, id: '7' }] }],
  ['an answer to a request that has none', { ...listing, status: 304 }],
])("GitHub's description finds %s", (_what, exchange) => {
  expect(openapi.complaints(exchange)).not.toEqual([])
})
