/** A release of a small package in a repository of the test's own: real git, real npm, and a remote that must get nothing. */
import { execFileSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { releaseChangelog } from '../../scripts/release/changelog.ts'
import { release } from '../../scripts/release/release.ts'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const CHANGELOG = `# Changelog

## [Unreleased]

### Added

- **Doors**: they open.

## [0.1.0] - 2031-01-01

- First.
`
const INTEGRITY = 'sha512-z4PhNX7vuL3xVChQ1m2AB9Yg5AULVxXcg/SpIdNs6c5H0NE8XYXysP+DGNKHfuwvY7kxvUdBeoGlODJ6+SfaPg=='

let folder: string
let root: string
let lines: string[]

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'release-'))
  root = join(folder, 'clone')
  lines = []
  mkdirSync(root)
  const own = { name: 'doors', version: '0.1.0' }
  const packages = { dependencies: { hinge: '1.0.0' }, devDependencies: { saw: '2.0.0' } }
  write(
    'package.json',
    JSON.stringify({ ...own, files: ['dist'], scripts: { build: 'mkdir dist && cp door.js dist' }, ...packages }),
  )
  write(
    'package-lock.json',
    JSON.stringify({
      ...own,
      lockfileVersion: 3,
      requires: true,
      packages: {
        '': { ...own, ...packages },
        'node_modules/hinge': { version: '1.0.0', integrity: INTEGRITY },
        'node_modules/saw': { version: '2.0.0', integrity: INTEGRITY, dev: true },
      },
    }),
  )
  write('door.js', 'export const door = 1\n')
  write('.gitignore', '.data/\ndist/\n')
  write('CHANGELOG.md', CHANGELOG)
  cpSync(join(ROOT, 'Dockerfile'), join(root, 'Dockerfile'))
  git('init', '--quiet', '--initial-branch', 'main')
  git('config', 'user.name', 'Test')
  git('config', 'user.email', 'test@example.com')
  git('add', '.')
  git('commit', '--quiet', '--message', 'First')
  execFileSync('git', ['init', '--quiet', '--bare', join(folder, 'remote')])
  git('remote', 'add', 'origin', join(folder, 'remote'))
})
afterEach(() => rm(folder, { recursive: true, force: true }))

const write = (path: string, text: string): void => writeFileSync(join(root, path), text)
const read = (path: string): string => readFileSync(join(root, path), 'utf8')
const git = (...args: string[]): string => execFileSync('git', args, { cwd: root, encoding: 'utf8' }).trim()
const make = (version: string, isDryRun = false) =>
  release({ root: `${root}/`, version, isDryRun, date: '2031-06-01', log: (line) => lines.push(line) })

describe('a release', () => {
  it('has version, changelog, tarball, SBOM, hashes, a commit and a tag, and sends nothing', async () => {
    const made = String(await make('0.2.0'))
    expect(JSON.parse(read('package.json')).version).toBe('0.2.0')
    expect(JSON.parse(read('package-lock.json')).packages[''].version).toBe('0.2.0')
    expect(read('CHANGELOG.md')).toContain('## [Unreleased]\n\n## [0.2.0] - 2031-06-01\n\n### Added\n\n- **Doors**')
    expect(git('log', '-1', '--format=%s')).toBe('Release v0.2.0')
    expect(git('status', '--porcelain')).toBe('')
    expect(git('tag', '--points-at', 'HEAD', '--format=%(contents)')).toBe('### Added\n\n- **Doors**: they open.')
    const packed = execFileSync('tar', ['tzf', join(made, 'doors-0.2.0.tgz')], { encoding: 'utf8' })
    expect(packed.trim().split('\n').sort()).toEqual(['package/dist/door.js', 'package/package.json'])
    const { metadata, components } = JSON.parse(readFileSync(join(made, 'doors-0.2.0.cdx.json'), 'utf8'))
    expect(metadata.component).toMatchObject({ name: 'doors', version: '0.2.0' })
    expect(components.map(({ name }: { name: string }) => name)).toEqual(['hinge'])
    execFileSync('sha256sum', ['--check', '--strict', 'SHA256SUMS'], { cwd: made, stdio: 'pipe' })
    expect(execFileSync('git', ['ls-remote', 'origin'], { cwd: root, encoding: 'utf8' })).toBe('')
    expect(lines.at(-1)).toBe('tagged     v0.2.0. To publish it: git push --follow-tags origin main')
  }, 120_000)

  it('changes nothing when it is a dry run', async () => {
    expect(await make('0.2.0', true)).toBeNull()
    expect(git('status', '--porcelain')).toBe('')
    expect({ tags: git('tag'), commits: git('rev-list', '--count', 'HEAD') }).toEqual({ tags: '', commits: '1' })
    expect(existsSync(join(root, '.data'))).toBe(false)
    expect(lines).toEqual([
      'version    0.1.0 -> 0.2.0',
      'changelog  2031-06-01, 1 entries',
      'image      3 stages: docker build --tag doors:0.2.0 .',
      'It was a dry run: nothing was changed.',
    ])
  })

  it('leaves the checkout as it was when a step fails', async () => {
    write('package.json', read('package.json').replace('mkdir dist && cp door.js dist', 'echo no room >&2; exit 3'))
    git('commit', '--quiet', '--all', '--message', 'Break the build')
    await expect(make('0.2.0')).rejects.toThrow(/npm run build ended with 3: .*no room/s)
    expect(git('status', '--porcelain')).toBe('')
    expect(git('tag')).toBe('')
  }, 120_000)

  it('leaves no commit when the tag is refused', async () => {
    const before = git('rev-parse', 'HEAD')
    git('config', 'tag.gpgSign', 'true')
    git('config', 'gpg.program', 'false')
    await expect(make('0.2.0')).rejects.toThrow(/^git tag .* ended with/)
    expect(git('rev-parse', 'HEAD')).toBe(before)
    expect(git('status', '--porcelain')).toBe('')
  }, 120_000)

  it.each([
    ['what is no version', '1.2', 'A version is wanted such as 1.2.3 or 1.2.3-rc.1; "1.2" was given.'],
    ['an older version', '0.0.9', '0.0.9 is older than 0.1.0'],
    ['a trial of the present version', '0.1.0-rc.1', '0.1.0-rc.1 is older than 0.1.0'],
  ])('refuses %s', async (_, version, message) => {
    await expect(make(version)).rejects.toThrow(message)
  })

  it('refuses changes that are not committed, another branch, and a tag that there is', async () => {
    git('tag', 'v0.2.0')
    await expect(make('0.2.0')).rejects.toThrow('There is a tag v0.2.0 already.')
    write('door.js', 'export const door = 2\n')
    await expect(make('0.3.0')).rejects.toThrow(/Commit or remove these changes first:\n.*door\.js/)
    git('switch', '--quiet', '--create', 'side')
    await expect(make('0.3.0')).rejects.toThrow('A release is made on main; this is side.')
  })
})

describe('the changelog', () => {
  it('of this repository takes the section of a release', () => {
    const text = readFileSync(join(ROOT, 'CHANGELOG.md'), 'utf8')
    const { text: released, notes } = releaseChangelog(text, '99.0.0', '2031-06-01')
    expect(notes.length).toBeGreaterThan(100)
    expect(released).toContain('## [Unreleased]\n\n## [99.0.0] - 2031-06-01\n\n')
  })

  it('without an entry is refused', () => {
    const text = CHANGELOG.replace('- **Doors**: they open.\n', '')
    expect(() => releaseChangelog(text, '0.2.0', '2031-06-01')).toThrow('there is nothing to release')
  })

  it('with the section already is refused', () => {
    expect(() => releaseChangelog(CHANGELOG, '0.1.0', '2031-06-01')).toThrow('has a section of 0.1.0 already')
  })
})
