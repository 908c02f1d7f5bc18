/** A release, made on this machine from a clean checkout: version, changelog, tarball, SBOM, commit, tag. It sends nothing anywhere. */
import { createHash } from 'node:crypto'
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'
import { run } from '../../dev/local-process.ts'
import { parseDockerfile } from '../image/dockerfile.ts'
import { releaseChangelog } from './changelog.ts'

const STEP_SECONDS = 900
const CHANGED = ['package.json', 'package-lock.json', 'CHANGELOG.md']
const BRANCH = 'main'
/** https://semver.org; `1.2.3-rc.1` is one to try. */
const VERSION = /^(\d+)\.(\d+)\.(\d+)(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?$/

const manifest = z.looseObject({ name: z.string(), version: z.string() })
const bill = z.looseObject({
  bomFormat: z.literal('CycloneDX'),
  components: z.array(z.looseObject({ name: z.string() })),
  metadata: z.looseObject({ component: z.looseObject({ name: z.string() }) }),
})

export interface Release {
  /** With a slash at its end. */
  readonly root: string
  readonly version: string
  readonly isDryRun: boolean
  readonly date: string
  readonly log: (line: string) => void
}

/**
 * @returns the folder with the tarball, the SBOM, the notes and their hashes; null after a dry run
 * @throws with what is in the way. Then the checkout is as it was
 */
export async function release({ root, version, isDryRun, date, log }: Release): Promise<string | null> {
  const read = (path: string): string => readFileSync(join(root, path), 'utf8')
  const step = async (command: string, ...args: string[]): Promise<string> => {
    const { code, output } = await run(command, args, { cwd: root, seconds: STEP_SECONDS })
    if (code !== 0) throw new Error(`${command} ${args.join(' ')} ended with ${code}: ${output.trim().slice(-2000)}`)
    return output.trim()
  }

  const { name, version: before } = manifest.parse(JSON.parse(read('package.json')))
  refuseVersion(version, before)
  const tag = `v${version}`
  const head = await step('git', 'rev-parse', 'HEAD')
  const branch = await step('git', 'branch', '--show-current')
  if (branch !== BRANCH) throw new Error(`A release is made on ${BRANCH}; this is ${branch || 'no branch'}.`)
  const changed = await step('git', 'status', '--porcelain')
  if (changed !== '') throw new Error(`Commit or remove these changes first:\n${changed}`)
  if ((await step('git', 'tag', '--list', tag)) !== '') throw new Error(`There is a tag ${tag} already.`)
  const changelog = releaseChangelog(read('CHANGELOG.md'), version, date)
  // The image is built of the tag by the workflow: a Dockerfile that the image's test can't read is refused here.
  const stages = parseDockerfile(read('Dockerfile'))

  log(`version    ${before} -> ${version}`)
  log(`changelog  ${date}, ${changelog.notes.split('\n').filter((line) => line.startsWith('- ')).length} entries`)
  log(`image      ${stages.length} stages: docker build --tag ${name}:${version} .`)
  if (isDryRun) {
    log('It was a dry run: nothing was changed.')
    return null
  }

  const folder = join(root, '.data', 'release', version)
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true })
  try {
    writeFileSync(join(root, 'CHANGELOG.md'), changelog.text)
    await step('npm', 'version', version, '--no-git-tag-version', '--allow-same-version')
    await step('npm', 'run', 'build')
    await step('npm', 'pack', '--pack-destination', folder)
    // By the lock: what an installation of the package gets today, without the packages of development.
    const sbom = await step('npm', 'sbom', '--sbom-format', 'cyclonedx', '--package-lock-only', '--omit', 'dev')
    writeFileSync(join(folder, `${name}-${version}.cdx.json`), billOf(name, sbom))
    writeFileSync(join(folder, 'notes.md'), `${changelog.notes}\n`)
    writeFileSync(join(folder, 'SHA256SUMS'), hashesIn(folder))
    await step('git', 'add', ...CHANGED)
    await step('git', 'commit', '--message', `Release ${tag}`)
    await step('git', 'tag', '--annotate', tag, '--cleanup=verbatim', '--file', join(folder, 'notes.md'))
  } catch (error) {
    // The commit may have been made, and the tag refused.
    await step('git', 'reset', '--quiet', '--soft', head)
    await step('git', 'checkout', head, '--', ...CHANGED)
    throw error
  }
  for (const file of readdirSync(folder)) log(`made       ${join('.data', 'release', version, file)}`)
  log(`tagged     ${tag}. To publish it: git push --follow-tags origin ${BRANCH}`)
  return folder
}

/** @throws for what is no version, or one before the present one */
function refuseVersion(version: string, before: string): void {
  const given = VERSION.exec(version)
  if (given === null) throw new Error(`A version is wanted such as 1.2.3 or 1.2.3-rc.1; "${version}" was given.`)
  const present = VERSION.exec(before) ?? []
  const older = new Error(`${version} is older than ${before}, the version in package.json.`)
  for (const part of [1, 2, 3]) {
    const difference = Number(given[part]) - Number(present[part])
    if (difference > 0) return
    if (difference < 0) throw older
  }
  // https://semver.org/#spec-item-11: `1.2.3-rc.1` comes before `1.2.3`.
  if (given[4] !== undefined && present[4] === undefined) throw older
}

/** npm takes the folder's name for the package's. */
function billOf(name: string, text: string): string {
  const parsed = bill.parse(JSON.parse(text))
  parsed.metadata.component.name = name
  return `${JSON.stringify(parsed, null, 2)}\n`
}

/** As `sha256sum --check` reads it. */
function hashesIn(folder: string): string {
  return readdirSync(folder)
    .map(
      (file) =>
        `${createHash('sha256')
          .update(readFileSync(join(folder, file)))
          .digest('hex')}  ${file}\n`,
    )
    .join('')
}
