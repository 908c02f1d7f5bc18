/** The table of problems, and whoever reads it. What is not in it can't be answered: the type of a problem's code. */
import { readFileSync } from 'node:fs'
import { describe, expect, it, onTestFinished } from 'vitest'
import { createApi } from '../../src/api/app.ts'
import { notFoundCode, operations, singular } from '../../src/api/command-routes.ts'
import { PROBLEMS } from '../../src/commands/statuses.ts'
import { testIntegrations } from '../support/integrations.ts'
import { READ_TOKEN, TOKENS } from '../support/operators.ts'

const codes = Object.entries(PROBLEMS)

describe('the table of problems', () => {
  it('has what each operation answers of an id that does not exist', () => {
    const asked = operations().filter(({ path }) => path.includes(':id'))
    const missing = asked.map(({ reach, path }) => notFoundCode(reach === 'all' ? singular(path) : reach))
    expect(Object.keys(PROBLEMS)).toEqual(expect.arrayContaining(missing))
  })

  it('stands in the docs, each with its status, and no other', () => {
    const page = readFileSync(new URL('../../docs/behaviour/operator-api.md', import.meta.url), 'utf8')
    const [, errors = ''] = page.split('\n## Errors\n')
    const rows = (errors.split('\n## ')[0] ?? '').matchAll(/^\| (\d{3}) \| ([^|]+) \|/gm)
    const said = [...rows].flatMap(([, status, cell = '']) =>
      [...cell.matchAll(/`(\w+)`/g)].map(([, code]) => [code, Number(status)]),
    )
    expect(said.sort()).toEqual([...codes].sort())
  })
})

describe("the API's root", () => {
  const { integrations, close } = testIntegrations('postgres://nobody@127.0.0.1:1/nothing', {
    baseUrl: 'https://example.com/hooks',
    config: { operator: { tokens: TOKENS } },
  })
  const get = (path: string) =>
    createApi(integrations).request(`/operator/api/v1${path}`, { headers: { authorization: `Bearer ${READ_TOKEN}` } })

  it('leads to the document and to its page, as a client reaches them', async () => {
    onTestFinished(close)
    const answer = await get('')
    const root = '/hooks/operator/api/v1'
    expect([answer.status, await answer.json()]).toEqual([
      200,
      { openapi: `${root}/openapi.json`, docs: `${root}/docs` },
    ])
    expect(answer.headers.get('link')).toBe(
      `<${root}/openapi.json>; rel="service-desc", <${root}/docs>; rel="service-doc"`,
    )
    const page = await (await get('/docs')).text()
    for (const [code, status] of codes)
      expect(page).toContain(`<td>${status}</td><td>urn:durable-integrations:problem:${code}</td>`)
  })
})
