import { execFileSync } from 'node:child_process'
import { expect, it } from 'vitest'
import { shellWord } from '../../src/framework/shell-word.ts'

it.each([
  ['integrations:sync:1', 'integrations:sync:1'],
  ['{"integrationId":1}', `'{"integrationId":1}'`],
  ["Anna's", `'Anna'\\''s'`],
  ['$HOME `id` "x" \\ ; &', `'$HOME \`id\` "x" \\ ; &'`],
  ['', `''`],
])('%s is one word, and the shell reads it back', (text, word) => {
  expect(shellWord(text)).toBe(word)
  expect(execFileSync('sh', ['-c', `printf %s ${word}`], { encoding: 'utf8' })).toBe(text)
})
