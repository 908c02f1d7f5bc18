/**
 * The build context of an image: the files of a folder that .dockerignore does not leave out.
 *
 * Source: https://docs.docker.com/build/concepts/context/#dockerignore-files. The last rule that matches a file or a folder above it
 * decides; `!` takes it in again.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

interface Rule {
  readonly isException: boolean
  readonly pattern: RegExp
}

/** Paths of the files, relative to the folder, in their order. */
export function buildContext(folder: string): string[] {
  const rules = rulesOf(readFileSync(join(folder, '.dockerignore'), 'utf8'))
  const entries = readdirSync(folder, { withFileTypes: true })
  // A folder without a file to send is not walked through: node_modules has a hundred thousand.
  const tops = entries.filter(
    ({ name }) => !isIgnored(name, rules) || rules.some(({ isException }) => isException && name !== 'node_modules'),
  )
  return tops
    .flatMap((entry) =>
      entry.isDirectory()
        ? readdirSync(join(folder, entry.name), { recursive: true, withFileTypes: true })
            .filter((below) => !below.isDirectory())
            .map((below) => join(below.parentPath, below.name).slice(folder.length).replace(/^\//, ''))
        : [entry.name],
    )
    .filter((path) => !isIgnored(path, rules))
    .sort()
}

export function rulesOf(text: string): Rule[] {
  return text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map((line) => {
      const isException = line.startsWith('!')
      const glob = line.replace(/^!/, '').replace(/^\//, '').replace(/\/$/, '')
      return { isException, pattern: new RegExp(`^${expressionOf(glob)}(/.*)?$`) }
    })
}

export function isIgnored(path: string, rules: readonly Rule[]): boolean {
  return rules.findLast(({ pattern }) => pattern.test(path))?.isException === false
}

/** As Go's filepath.Match reads it, and `**` for any number of folders. */
function expressionOf(glob: string): string {
  return glob
    .replaceAll(/[.+^${}()|[\]\\]/g, '\\$&')
    .replaceAll('**/', '\u0000')
    .replaceAll('**', '\u0001')
    .replaceAll('*', '[^/]*')
    .replaceAll('?', '[^/]')
    .replaceAll('\u0000', '(.*/)?')
    .replaceAll('\u0001', '.*')
}
