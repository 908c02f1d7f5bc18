/**
 * Docker Compose's own reader of its files (scripts/compose/main.go). No engine is needed.
 *
 * Source: https://github.com/compose-spec/compose-go.
 */
import { fileURLToPath } from 'node:url'
import { moduleOfOurs } from './built-by-go.ts'

export const { find: findComposeResolver, present: presentComposeResolver } = moduleOfOurs(
  fileURLToPath(new URL('../../scripts/compose/', import.meta.url)),
  { name: 'compose-resolver', takes: '10 s' },
)
