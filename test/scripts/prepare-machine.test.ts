/** What the machine is asked for is what is built there. */
import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { OLDEST_GO } from '../../scripts/prepare-machine.ts'
import { isAtLeast } from '../../scripts/versions.ts'

it('asks for the Go that the reader of Compose files needs, and the README says so', () => {
  const read = (path: string): string => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8')
  const [, line] = /^go (\d+(?:\.\d+)*)$/m.exec(read('scripts/compose/go.mod')) ?? []
  expect(isAtLeast(OLDEST_GO, String(line).split('.').map(Number)), `go ${line}`).toBe(true)
  expect(read('README.md').match(/Go [\d.]+ or newer/g)).toContain(`Go ${OLDEST_GO.join('.')} or newer`)
})
