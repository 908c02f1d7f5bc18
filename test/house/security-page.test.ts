/** SECURITY.md: each door has the tests that hold it. */
import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const PAGE = readFileSync(`${ROOT}SECURITY.md`, 'utf8')
const THREATS = PAGE.slice(PAGE.indexOf('## Threats'), PAGE.indexOf('## What is encrypted'))
/** A row with an empty first cell goes on with the one above. */
const DOORS = THREATS.replaceAll(/\n(?=\| \|)/g, ' ')
  .split('\n')
  .filter((line) => /^\| (?!door |---)/.test(line))
const testsOf = (text: string): string[] => [...text.matchAll(/`(test\/[^`]+)`/g)].map(([, path]) => path ?? '')

describe('the page of security', () => {
  it('names tests for each door', () => {
    expect(DOORS.length).toBeGreaterThan(15)
    expect(DOORS.filter((door) => testsOf(door).length === 0)).toEqual([])
  })

  it('names files that are there', () => {
    expect(testsOf(PAGE).filter((path) => !existsSync(ROOT + path))).toEqual([])
  })
})
