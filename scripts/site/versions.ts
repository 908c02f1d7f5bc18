/** Which versions the reference has: this checkout, and each tag `v<version>`. */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

export interface ReferenceVersion {
  /** Folder below `/reference/`, such as `1.2.0`. */
  readonly folder: string
  /** As the menu names it. */
  readonly title: string
  /** The tag whose sources it is made of; null: the files of this checkout. */
  readonly tag: string | null
}

/** The reference of this checkout, which the documentation links to. */
export const NEXT = 'next'

const RELEASE_TAG = /^v\d+[.]\d+[.]\d+$/

/** This checkout first, then the releases, newest first. */
export function referenceVersions(root: string): ReferenceVersion[] {
  const tags = execFileSync('git', ['tag', '--list', 'v*', '--sort=-version:refname'], { cwd: root, encoding: 'utf8' })
  const released = tags.split('\n').filter((tag) => RELEASE_TAG.test(tag))
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string }
  const isReleased = released.includes(`v${version}`)
  return [
    { folder: NEXT, title: isReleased ? `${version} and later` : `${version}, not released`, tag: null },
    ...released.map((tag) => ({ folder: tag.slice(1), title: tag.slice(1), tag })),
  ]
}
