#!/usr/bin/env bash
# gpt_without_gpu_test.sh GPT SENTENCE: without a GPU `--device cuda` ends at once with that
# sentence, before anything is written.
set -u
gpt=$1 sentence=$2
if [ -e /dev/nvidiactl ]; then
  echo "skipped: this machine has a GPU"
  exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
echo "to be or not to be, that is the question" >"$folder/text"
status=0
for command in "train --data $folder/text --sequence 4 --batch 1 --steps 1 --out $folder/run" "verify"; do
  # shellcheck disable=SC2086
  said=$("$gpt" $command --device cuda 2>&1)
  code=$?
  if [ $code -eq 0 ] || [ $code -ge 128 ] || [[ $said != *"$sentence"* ]]; then
    echo "gpt $command --device cuda: exit status $code, expected '$sentence', got: $said"
    status=1
  fi
done
if [ -e "$folder/run" ]; then
  echo "the refused run left $folder/run behind"
  status=1
fi
exit $status
