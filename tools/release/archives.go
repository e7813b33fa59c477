package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// archived returns the files of the archive of a platform, by their names in it.
func (r *release) archived(p platform, program string) (map[string]string, error) {
	documents, files := r.documents(), map[string]string{p.program(): program}
	err := filepath.WalkDir(documents, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name, err := filepath.Rel(documents, path)
		files[filepath.ToSlash(name)] = path
		return err
	})
	return files, err
}

// writeArchive writes the files of a platform, as Windows or the others unpack them.
func (r *release) writeArchive(p platform, files map[string]string) error {
	suffix, pack := ".tar.gz", r.writeTar
	if p.os == "windows" {
		suffix, pack = ".zip", r.writeZip
	}
	path := r.archive(p, suffix)
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	folder := "mcpbridge-" + r.version + "-" + p.String() + "/"
	err = pack(f, slices.Sorted(maps.Keys(files)), func(name string) (string, fs.FileMode, []byte, error) {
		mode := fs.FileMode(0o644)
		if name == p.program() {
			mode = 0o755
		}
		content, err := os.ReadFile(files[name])
		return folder + name, mode, content, err
	})
	return errors.Join(err, f.Close())
}

// An opener returns the path of a file in the archive, its mode and its content.
type opener func(name string) (string, fs.FileMode, []byte, error)

func (r *release) writeTar(w io.Writer, names []string, open opener) error {
	compressed, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	t := tar.NewWriter(compressed)
	for _, name := range names {
		path, mode, content, err := open(name)
		if err != nil {
			return err
		}
		header := &tar.Header{Name: path, Mode: int64(mode), Size: int64(len(content)), ModTime: r.time}
		if err := t.WriteHeader(header); err != nil {
			return err
		}
		if _, err := t.Write(content); err != nil {
			return err
		}
	}
	return errors.Join(t.Close(), compressed.Close())
}

func (r *release) writeZip(w io.Writer, names []string, open opener) error {
	z := zip.NewWriter(w)
	for _, name := range names {
		path, mode, content, err := open(name)
		if err != nil {
			return err
		}
		header := &zip.FileHeader{Name: path, Method: zip.Deflate, Modified: r.time}
		header.SetMode(mode)
		f, err := z.CreateHeader(header)
		if err != nil {
			return err
		}
		if _, err := f.Write(content); err != nil {
			return err
		}
	}
	return z.Close()
}
