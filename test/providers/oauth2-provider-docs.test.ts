/** The example of the docs is the file that the tests compile and run. */
import { readFile } from 'node:fs/promises'
import { expect, it } from 'vitest'
import { hasOAuth2, incompleteContracts } from '../../src/providers/contracts.ts'
import { AcmeProvider } from './acme-oauth-provider.ts'

it('shows a provider that compiles, and is one with OAuth', async () => {
  const page = await readFile(new URL('../../docs/writing-a-provider.md', import.meta.url), 'utf8')
  const section = page.split('\n## OAuth 2.0\n')[1] ?? ''
  const [, example] = /```ts\n(.*?)```/s.exec(section) ?? []
  expect(example).toBe(await readFile(new URL('acme-oauth-provider.ts', import.meta.url), 'utf8'))
  const provider = new AcmeProvider({ id: 'acme', secret: 'the secret of acme' })
  expect(hasOAuth2(provider)).toBe(true)
  expect(incompleteContracts(provider)).toEqual([])
  expect(provider).toMatchObject({ pkce: 'S256', issuer: 'https://login.acme.example' })
  expect(provider.refreshThreshold()).toBe(300)
})
