import { expect, it } from 'vitest'
import { streamOption, syncWords } from '../../src/syncs/stream-rules.ts'

it.each([
  ['issues', 'the stream issues of integration 7', ' --stream issues'],
  [null, 'integration 7', ''],
  [undefined, 'integration 7', ''],
])('the stream %s is called "%s"', (stream, words, option) => {
  const sync = { integrationId: 7, ...(stream !== undefined && { stream }) }
  expect([syncWords(sync), streamOption(stream)]).toEqual([words, option])
})
