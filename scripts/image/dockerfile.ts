/**
 * Reads a Dockerfile with the instructions that ours has. It refuses any other; it guesses nothing.
 *
 * Source: https://docs.docker.com/reference/dockerfile/
 */

export interface Instruction {
  readonly word: string
  /** The rest of the line, continuations joined. */
  readonly text: string
}

export interface Stage {
  /** What `AS` calls it, or its number. */
  readonly name: string
  /** The image it begins with, variables filled in. */
  readonly from: string
  readonly instructions: readonly Instruction[]
}

const KNOWN = new Set(['ARG', 'FROM', 'WORKDIR', 'COPY', 'RUN', 'ENV', 'LABEL', 'USER', 'EXPOSE', 'HEALTHCHECK', 'CMD'])

/** @throws with the line, for an instruction that is not known here */
export function parseDockerfile(text: string): Stage[] {
  const defaults = new Map<string, string>()
  const stages: { name: string; from: string; instructions: Instruction[] }[] = []
  for (const instruction of instructionsOf(text)) {
    const { word, text: rest } = instruction
    const current = stages.at(-1)
    if (word === 'FROM') {
      const [, image = '', name] = /^(\S+)(?:\s+AS\s+(\S+))?$/i.exec(rest) ?? []
      if (image === '') throw new Error(`FROM ${rest}: not the name of an image`)
      stages.push({ name: name ?? String(stages.length), from: filled(image, defaults), instructions: [] })
    } else if (current === undefined) {
      const [, name, value] = /^(\w+)=(\S+)$/.exec(rest) ?? []
      if (word !== 'ARG' || name === undefined || value === undefined)
        throw new Error(`${word} ${rest}: before the first FROM only ARG with a default is known here`)
      defaults.set(name, value)
    } else if (word === 'ARG') {
      throw new Error(`ARG ${rest}: known here before the first FROM only`)
    } else current.instructions.push(instruction)
  }
  return stages
}

/** The words of COPY and the like: flags apart from the rest. */
export function wordsOf(text: string): { flags: ReadonlyMap<string, string>; words: readonly string[] } {
  const flags = new Map<string, string>()
  const words: string[] = []
  for (const word of text.split(/\s+/)) {
    const [, name, value] = /^--([\w-]+)=(.*)$/.exec(word) ?? []
    if (name === undefined || words.length > 0) words.push(word)
    else flags.set(name, value ?? '')
  }
  return { flags, words }
}

/** `NAME=value` pairs of ENV and LABEL; a value may be quoted. */
export function pairsOf(text: string): Map<string, string> {
  return new Map(
    [...text.matchAll(/([\w.]+)=("(?:[^"\\]|\\.)*"|\S+)/g)].map(([, name = '', value = '']) => [
      name,
      value.replace(/^"(.*)"$/, '$1'),
    ]),
  )
}

/** `["node", "dist/bin/api.js"]`. @throws when it is the shell's form */
export function execForm(text: string): string[] {
  const parsed: unknown = JSON.parse(text)
  if (!Array.isArray(parsed) || !parsed.every((word) => typeof word === 'string'))
    throw new Error(`${text}: not a list of words`)
  return parsed
}

function instructionsOf(text: string): Instruction[] {
  const lines = text.split('\n').filter((line) => !line.trimStart().startsWith('#'))
  const whole = lines
    .join('\n')
    .replaceAll(/\\\n\s*/g, ' ')
    .split('\n')
  return whole
    .filter((line) => line.trim() !== '')
    .map((line) => {
      const [, word = '', rest = ''] = /^(\S+)\s+(.*)$/.exec(line.trim()) ?? []
      if (!KNOWN.has(word)) throw new Error(`${line}: not an instruction that is known here`)
      return { word, text: rest.trim() }
    })
}

/** `${NAME}` by a default of ARG. */
function filled(text: string, values: ReadonlyMap<string, string>): string {
  return text.replaceAll(/\$\{(\w+)\}/g, (whole, name: string) => values.get(name) ?? whole)
}
