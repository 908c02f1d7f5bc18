/**
 * Runs the steps of our Dockerfile without a container engine, stage by stage. Each stage has a clean folder that stands for its `/`.
 * The base image is this machine, but with the image's version of Node.
 */
import { chmodSync, cpSync, lstatSync, mkdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { run } from '../../dev/local-process.ts'
import { buildContext } from './build-context.ts'
import type { Stage } from './dockerfile.ts'
import { execForm, pairsOf, parseDockerfile, wordsOf } from './dockerfile.ts'
import { nodeOfImage } from './node-binary.ts'

const STEP_SECONDS = 900

export interface BuiltImage {
  /** Stands for the image's `/`. */
  readonly root: string
  readonly workingFolder: string
  readonly user: string
  readonly environment: Readonly<Record<string, string>>
  readonly command: readonly string[]
  /** The words behind CMD. */
  readonly healthcheck: readonly string[]
  readonly exposes: readonly number[]
}

/** @param source a folder with a Dockerfile and a .dockerignore; @param folder empty: each stage becomes a folder of it */
export async function buildByHand(source: string, folder: string, log: (line: string) => void): Promise<BuiltImage> {
  const stages = parseDockerfile(readFileSync(join(source, 'Dockerfile'), 'utf8'))
  const context = buildContext(source)
  let image: BuiltImage | undefined
  for (const stage of stages) image = await buildStage(stage, { source, folder, context, log })
  if (image === undefined) throw new Error('The Dockerfile has no stage')
  return image
}

interface Build {
  readonly source: string
  readonly folder: string
  readonly context: readonly string[]
  readonly log: (line: string) => void
}

async function buildStage(stage: Stage, { source, folder, context, log }: Build): Promise<BuiltImage> {
  const root = join(folder, stage.name)
  mkdirSync(root, { recursive: true })
  const node = await nodeOfImage(stage.from, log)
  const environment: Record<string, string> = {
    PATH: `${node}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin`,
  }
  let at = '/'
  let user = 'root'
  let command: string[] = []
  let healthcheck: string[] = []
  const exposes: number[] = []
  const here = (path: string): string => join(root, path.startsWith('/') ? path : join(at, path))
  for (const { word, text } of stage.instructions) {
    log(`${stage.name}: ${word} ${text}`)
    if (word === 'WORKDIR') {
      at = text
      mkdirSync(here('.'), { recursive: true })
    } else if (word === 'COPY') {
      const { flags, words } = wordsOf(text)
      const from = flags.get('from')
      const mode = flags.has('chmod') ? Number.parseInt(flags.get('chmod') ?? '', 8) : null
      const sources = words.slice(0, -1)
      const to = words.at(-1) ?? ''
      for (const path of sources)
        if (from === undefined) copyFromContext(source, context, path, to, { here, mode })
        else copyTree(join(folder, from, path), here(to))
    } else if (word === 'RUN') {
      // The machine's npm settings, such as its registry, apply here, too.
      const env = { ...process.env, ...environment, NODE_OPTIONS: undefined, NODE_ENV: environment.NODE_ENV }
      const { code, output } = await run('/bin/sh', ['-c', text], { cwd: here('.'), env, seconds: STEP_SECONDS })
      if (code !== 0) throw new Error(`${stage.name}: RUN ${text} ended with ${code}:\n${output.trim().slice(-4_000)}`)
    } else if (word === 'ENV') {
      for (const [name, value] of pairsOf(text)) environment[name] = inRoot(value, root, environment)
    } else if (word === 'USER') user = text
    else if (word === 'EXPOSE') exposes.push(Number(text))
    else if (word === 'CMD') command = execForm(text)
    else if (word === 'HEALTHCHECK') healthcheck = execForm(text.slice(text.indexOf('CMD') + 'CMD'.length))
    else if (word !== 'LABEL') throw new Error(`${word}: not an instruction of a stage that is known here`)
  }
  return { root, workingFolder: here('.'), user, environment, command, healthcheck, exposes }
}

/** Of a folder its content, of a file itself; as a builder does, and of what it was sent only. */
function copyFromContext(
  source: string,
  context: readonly string[],
  path: string,
  to: string,
  { here, mode }: { here: (path: string) => string; mode: number | null },
): void {
  const copyFile = (from: string, target: string): void => {
    copyTree(from, target)
    if (mode !== null) chmodSync(target, mode)
  }
  const below = context.filter((file) => file.startsWith(`${path}/`))
  if (context.includes(path)) {
    const target = to.endsWith('/') ? here(join(to, path.slice(path.lastIndexOf('/') + 1))) : here(to)
    copyFile(join(source, path), target)
  } else if (below.length > 0)
    for (const file of below) copyFile(join(source, file), here(join(to, file.slice(path.length + 1))))
  else throw new Error(`COPY ${path}: there is no such file in what the builder is sent (.dockerignore)`)
}

function copyTree(from: string, to: string): void {
  lstatSync(from)
  mkdirSync(dirname(to), { recursive: true })
  cpSync(from, to, { recursive: true, verbatimSymlinks: true, preserveTimestamps: true })
}

/** A value's `$NAME`, and absolute paths of the image as they are here. */
function inRoot(value: string, root: string, environment: Readonly<Record<string, string>>): string {
  return value
    .split(':')
    .map((part) =>
      part.startsWith('/') ? join(root, part) : part.replace(/^\$(\w+)$/, (_, name) => environment[name] ?? ''),
    )
    .join(':')
}
