import { readFileSync } from 'node:fs'
import { join } from 'node:path'

/** The entries of the package in `root` by the name that a host imports, such as `durable-integrations/provider`. */
export function entriesOf(root: string): { name: string; source: string }[] {
  const { name, exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
    name: string
    exports: Record<string, string | { 'durable-source': string }>
  }
  return Object.entries(exports).flatMap(([path, entry]) =>
    typeof entry === 'string' ? [] : [{ name: name + path.slice(1), source: entry['durable-source'] }],
  )
}
