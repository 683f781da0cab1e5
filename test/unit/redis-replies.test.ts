import { describe, expect, test } from 'vitest'
import { Push, ReplyError, ReplyReader } from '../../src/drivers/redis/replies.ts'

/** What is told of these bytes when they arrive in pieces of this size. */
function replies(text: string, pieceBytes: number): unknown[] {
  const told: unknown[] = []
  const reader = new ReplyReader((reply) => told.push(reply))
  const bytes = Buffer.from(text)
  // One buffer for all pieces, as a connection has it.
  const buffer = Buffer.alloc(pieceBytes)
  for (let from = 0; from < bytes.length; from += pieceBytes) {
    const copied = bytes.copy(buffer, 0, from, from + pieceBytes)
    reader.read(buffer.subarray(0, copied))
  }
  return told
}

const spoken: readonly (readonly [text: string, reply: unknown])[] = [
  ['+OK\r\n', 'OK'],
  [':-42\r\n', -42],
  ['$0\r\n\r\n', ''],
  ['$-1\r\n', null],
  ['_\r\n', null],
  ['#t\r\n', true],
  [',1.5\r\n', '1.5'],
  ['=8\r\ntxt:some\r\n', 'some'],
  ['*0\r\n', []],
  ['*-1\r\n', null],
  ['*3\r\n$1\r\na\r\n*2\r\n:1\r\n*0\r\n_\r\n', ['a', [1, []], null]],
  ['%2\r\n+proto\r\n:3\r\n+modules\r\n*0\r\n', ['proto', 3, 'modules', []]],
  ['-ERR no\r\n', new ReplyError('ERR no')],
  ['!7\r\nERR two\r\n', new ReplyError('ERR two')],
  ['>3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$2\r\nhi\r\n', new Push(['message', 'c', 'hi'])],
]

describe('replies', () => {
  test.each([1, 2, 3, 7, 64, 65_536])('are read whole out of pieces of %i bytes', (pieceBytes) => {
    expect(replies(spoken.map(([text]) => text).join(''), pieceBytes)).toEqual(spoken.map(([, reply]) => reply))
  })

  test('are as long as they say in bytes, whatever lies inside', () => {
    expect(replies('$11\r\nä\r\n:1\r\n+no\r\n:7\r\n', 5)).toEqual(['ä\r\n:1\r\n+no', 7])
  })

  test('that have not ended are not told', () => {
    for (const text of ['$5\r\nabcde', '$5\r\nabcde\r', '*2\r\n:1\r\n', '+OK\r', ':'])
      expect(replies(text, 2)).toEqual([])
  })
})
