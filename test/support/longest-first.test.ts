import { readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { SECONDS } from './longest-first.ts'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))

it('each file whose time is known is there', () => {
  const files = readdirSync(`${ROOT}test`, { recursive: true, encoding: 'utf8' }).map((path) => `test/${path}`)
  expect(files).toEqual(expect.arrayContaining(Object.keys(SECONDS)))
})
