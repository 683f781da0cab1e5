import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import * as dagre from '@dagrejs/dagre'
import type { WaitDocument } from '../../src/dashboard/documents.ts'
import * as graph from '../../src/dashboard/page/graph-layout.js'
import { waitOf } from './support/operators-documents.ts'

const { boxHeight, boxWidth, edgesOf, labelHeight, widthOf } = graph
const layOut = (waits: readonly WaitDocument[]) => graph.layOut(waits, dagre)
type Picture = ReturnType<typeof layOut>

function boxOf(picture: Picture, id: string): { readonly x: number; readonly y: number } {
  const box = picture.boxes.find((each) => each.id === id)
  if (box === undefined) throw new Error(`${id} is not in the picture`)
  return box
}

describe('the picture', () => {
  test('has whoever waits to the left of whom it waits for', () => {
    const picture = layOut([waitOf('a', 'b'), waitOf('b', 'c'), waitOf('a', 'c')])
    const [a, b, c] = ['a', 'b', 'c'].map((id) => boxOf(picture, id).x)
    expect([a, b, c]).toEqual([a, b, c].toSorted((one = 0, other = 0) => one - other))
    expect(new Set([a, b, c]).size).toBe(3)
  })

  test('has every edge of a cycle, and one that runs back', () => {
    const edges = ['ab', 'bc', 'ca']
    const cycle = edges.map((edge) => waitOf(edge.charAt(0), edge.charAt(1), { circular: true }))
    const picture = layOut([waitOf('x', 'y'), ...cycle, waitOf('z', 'y')])
    expect(picture.edges.filter(({ circular }) => circular)).toHaveLength(3)
    const back = picture.edges.filter(({ from, to }) => boxOf(picture, from).x > boxOf(picture, to).x)
    expect(back).toHaveLength(1)
  })

  test('never has boxes or labels on each other or outside, whoever waits for whom', () => {
    const owner = fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f', 'g', 'h')
    const waits = fc.array(fc.record({ from: owner, to: owner, circular: fc.boolean() }), { maxLength: 30 })
    fc.assert(
      fc.property(waits, (drawn) => {
        const picture = layOut(drawn.map(({ from, to, circular }) => waitOf(from, to, { circular })))
        const boxes = picture.boxes.map(({ x, y }) => ({ x, y, width: boxWidth, height: boxHeight }))
        const labels = picture.edges.map(({ label, labelX, labelY }) => {
          const width = widthOf(label)
          return { x: labelX - width / 2, y: labelY - labelHeight / 2, width, height: labelHeight }
        })
        const all = [...boxes, ...labels]
        for (const [index, left] of all.entries()) {
          expect(left.x >= 0 && left.y >= 0).toBe(true)
          expect(left.x + left.width <= picture.width && left.y + left.height <= picture.height).toBe(true)
          for (const right of all.slice(index + 1)) {
            const isBeside = left.x + left.width <= right.x || right.x + right.width <= left.x
            const isAbove = left.y + left.height <= right.y || right.y + right.height <= left.y
            expect(isBeside || isAbove).toBe(true)
          }
        }
      }),
    )
  })

  test('of very many leaves some out, says how many, and keeps the cycles', () => {
    const crowd = Array.from({ length: 60 }, (_, at) => waitOf(`w${at}`, 'holder', { scope: 'busy' }))
    const cycle = [waitOf('a', 'b', { circular: true }), waitOf('b', 'a', { circular: true })]
    const picture = layOut([...crowd, ...cycle])
    expect(picture.boxes.length + picture.left).toBe(63)
    expect(picture.left).toBeGreaterThan(0)
    expect(picture.edges.filter(({ circular }) => circular)).toHaveLength(2)
  })
})

test('a place in a queue is drawn only where no edge to the holder says as much', () => {
  const key = { scope: 'q' }
  const queue = [waitOf('a', 'h', key), waitOf('b', 'h', key), waitOf('b', 'a', { ...key, because: 'ahead' })]
  expect(edgesOf(queue).map(({ from, to }) => from + to)).toEqual(['ah', 'bh'])
  expect(edgesOf([waitOf('b', 'a', { because: 'ahead' })])).toHaveLength(1)
  expect(edgesOf([waitOf('a', 'a')])).toEqual([])
})
