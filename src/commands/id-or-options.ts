/** Commands that take an id, or options that choose many. */
import { kebab } from './cli/command-line.ts'
import { Refused } from './refused.ts'

/** The name of an option that chooses, as it stands on the command line; undefined: nothing chooses. */
export function chooser(options: object): string | undefined {
  const [name] = Object.entries(options).find(([, value]) => value !== undefined && value !== false) ?? []
  return name === undefined ? undefined : `--${kebab(name)}`
}

/** @throws Refused where both are given */
export function idOrOptions(id: number | undefined, options: object): void {
  const chosen = chooser(options)
  if (id !== undefined && chosen !== undefined)
    throw new Refused('usage', `Give an id or options that choose, not both: ${id} and ${chosen} were given.`)
}
