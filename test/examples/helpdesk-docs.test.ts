/** What the docs show of the example is the example. */
import { readFile } from 'node:fs/promises'
import { expect, it } from 'vitest'
import { DesklineProvider } from '../../examples/helpdesk/deskline/provider.ts'
import { incompleteContracts } from '../../src/providers/contracts.ts'

const CONTRACT =
  /^export interface (\w+) extends (?:IntegrationProvider|DeclaresRateLimit|HandlesWebhooks|HasScheduledSync) /gm

const read = (path: string): Promise<string> => readFile(new URL(`../../${path}`, import.meta.url), 'utf8')

it('shows the signature of the example as it is', async () => {
  const page = await read('docs/writing-a-provider.md')
  const section = page.split('\n### A signature of their own\n')[1] ?? ''
  const [, shown] = /```ts\n(.*?)```/s.exec(section) ?? []
  const provider = await read('examples/helpdesk/deskline/provider.ts')
  const members = (shown ?? '').split('\n').filter((line) => /^ {2}\w+:/.test(line))
  expect(members.length).toBeGreaterThan(5)
  for (const member of members) expect(provider).toContain(member.trim())
})

it('lists every contract that there is', async () => {
  const page = await read('docs/writing-a-provider.md')
  const contracts = [...(await read('src/providers/contracts.ts')).matchAll(CONTRACT)]
  const names = contracts.map(([, name = '']) => name)
  expect(names.length).toBeGreaterThan(10)
  expect(names.filter((name) => !page.includes(`| \`${name}\` |`))).toEqual([])
})

it('has a provider without half a contract', () => {
  expect(incompleteContracts(new DesklineProvider({ clientId: 'id', clientSecret: 'secret' }))).toEqual([])
})
