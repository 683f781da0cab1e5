import { afterAll, onTestFinished } from 'vitest'
import { makeFolder, removeFolder } from './scratch-folder.ts'

/** An empty folder for the test that runs now, removed after it and after its `afterEach` hooks. May be called in `beforeEach`. */
export function folderForTest(name: string): string {
  const folder = makeFolder(name)
  onTestFinished(() => removeFolder(folder))
  return folder
}

/** An empty folder for a test file or a `describe`, removed after its tests and the `afterAll` hooks that follow this call. */
export function folderForFile(name: string): string {
  const folder = makeFolder(name)
  afterAll(() => removeFolder(folder))
  return folder
}
